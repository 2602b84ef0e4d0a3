"""The preprocessing that a checkpoint of transformers declares."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from raptor.core.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, Size
from raptor.errors import UnsupportedModelError, one_line
from raptor.models.teachers.huggingface import as_size
from raptor.runtime.optional_imports import import_transformers, reachable

FIELDS = (
    "size", "crop_size", "resample", "image_mean", "image_std", "do_resize", "do_center_crop", "do_rescale",
    "do_normalize", "rescale_factor", "default_to_square",
)  # fmt: skip


def preprocessing_of(source: str, config: Any) -> Preprocessing:
    """Read `preprocessor_config.json`; without one, return the ImageNet default at the model's image size."""
    cached_file = import_transformers().utils.cached_file
    local = os.path.isdir(source) or not reachable()
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    for name in ("preprocessor_config.json", "processor_config.json"):
        if path := cached_file(source, name, local_files_only=local, **quiet):
            try:
                content = json.loads(Path(path).read_text())
                return from_processor(content.get("image_processor", content), config)
            except Exception as error:
                raise UnsupportedModelError(
                    f"the {name} of {source!r} is invalid ({one_line(error)}); correct or remove it"
                ) from error
    size = as_size(config.image_size)
    return Preprocessing(crop=size, resize=(round(size[0] / 0.875), round(size[1] / 0.875)))


def from_processor(written: dict[str, Any], config: Any) -> Preprocessing:
    """Convert the JSON of an image processor; missing fields have the defaults of its class."""
    fields = {**_class_defaults(written), **{name: written[name] for name in FIELDS if name in written}}
    size, crop = fields.get("size"), fields.get("crop_size")
    square = fields.get("default_to_square", True)
    resize = _edges(size) if fields.get("do_resize", True) and size is not None else None
    crop = _edges(crop) if fields.get("do_center_crop") and crop is not None else None
    exact = "height" in size if isinstance(size, dict) else square
    normalised = fields.get("do_normalize", True)
    return Preprocessing(
        crop=crop or resize or as_size(config.image_size),
        resize=resize,
        fit="squash" if exact else "cover",
        resample=_resample(fields.get("resample")),
        mean=_channels(fields.get("image_mean") or IMAGENET_MEAN) if normalised else (0.0,) * 3,
        std=_channels(fields.get("image_std") or IMAGENET_STD) if normalised else (1.0,) * 3,
        scale=float(fields.get("rescale_factor") or 1 / 255) if fields.get("do_rescale", True) else 1.0,
        source="the model's preprocessor_config.json",
    )


def _class_defaults(written: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the processor's class, which old files call a feature extractor."""
    named = str(written.get("image_processor_type") or written.get("feature_extractor_type") or "")
    family = named.removesuffix("Fast").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    kind = getattr(import_transformers(), f"{family}ImageProcessorPil", None) if family else None
    return {} if kind is None else {name: getattr(kind, name, None) for name in FIELDS}


def _edges(size: int | dict[str, int]) -> Size:
    """Return (height, width) of a number, {"shortest_edge"} or {"height", "width"}."""
    pair = (size, size) if isinstance(size, int) else (
        size.get("height", size.get("shortest_edge")), size.get("width", size.get("shortest_edge"))
    )  # fmt: skip
    if not all(isinstance(edge, int) and edge > 0 for edge in pair):
        raise ValueError(f"size {size!r} is not a number, shortest_edge, or height and width")
    return pair  # type: ignore[return-value]


def _channels(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _resample(value: Any) -> int:
    number = 2 if value is None else int(value)
    if not 0 <= number <= 5:
        raise ValueError(f"resample {value!r} is not one of PIL's filters, 0 to 5")
    return number
