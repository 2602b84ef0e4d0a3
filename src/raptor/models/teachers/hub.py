"""Models in the format of `transformers`: a local directory or a hub id."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from raptor.errors import ModelNotFoundError, UnsupportedModelError, WeightsError
from raptor.hub import import_transformers, reachable
from raptor.models.teachers.adapt import ADAPTERS, supported
from raptor.models.teachers.classifiers import CLASSIFIERS
from raptor.models.teachers.huggingface import as_size
from raptor.models.teachers.weights import load_strictly, read_weights
from raptor.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", flags=re.ASCII)

# Image and text in one: only the vision tower is kept.
TWO_TOWERS = frozenset({"CLIPModel", "CLIPVisionModelWithProjection", "SiglipModel", "Aimv2Model"})


def check_source(source: str) -> bool:
    """Return whether the files must be local; raise where there is nothing to load."""
    if Path(source).is_dir():
        if not (Path(source) / "config.json").is_file():
            raise ModelNotFoundError(
                f"the directory {source!r} holds no model: it has no config.json; "
                "save one there with model.save_pretrained(DIR)"
            )
        return True
    if Path(source).exists() or not HUB_ID.fullmatch(source):
        raise ModelNotFoundError(
            f"{source!r} is neither a directory with a model nor a hub id; give a directory that "
            "save_pretrained wrote, a hub id such as facebook/dinov2-base, timm:NAME, dinov2:ARCH or scenes"
        )
    return not reachable()


def _model_class(config: Any) -> Any:
    """Return the class to load: with its classifier where the checkpoint has one, else the bare ViT."""
    transformers = import_transformers()
    named = (config.architectures or [""])[0]
    if not _is_known(named):
        mapping = transformers.AutoModel._model_mapping
        named = mapping[type(config)].__name__ if type(config) in mapping else ""
    if not _is_known(named):
        raise UnsupportedModelError(
            f"no adapter knows models of type {config.model_type!r}; supported are {supported()}. "
            "raptor.register_adapter teaches it a new one in about 20 lines: see docs/adapters.md"
        )
    return getattr(transformers, named)


def _is_known(name: str) -> bool:
    return name in CLASSIFIERS or name in TWO_TOWERS or f"transformers.{name}" in ADAPTERS


def load(source: str, weights: Path | None, dtype: torch.dtype) -> nn.Module:
    """Load a model with its weights, from the checkpoint or from a file of their own."""
    local = check_source(source)
    try:
        config = import_transformers().AutoConfig.from_pretrained(source, local_files_only=local)
    except OSError as error:
        raise ModelNotFoundError(_not_loaded(source, local, error)) from error
    except (ValueError, KeyError) as error:
        raise UnsupportedModelError(
            f"the configuration of {source!r} is of no model that transformers knows ({_first_line(error)}); "
            f"supported are {supported()}"
        ) from error
    kind = _model_class(config)
    if weights is not None:
        return _vision_tower(load_strictly(kind(config), read_weights(weights), weights).to(dtype))
    logging = import_transformers().utils.logging
    logging.disable_progress_bar()  # reading a local file is not worth a bar; downloads keep theirs
    try:
        model, info = kind.from_pretrained(source, local_files_only=local, dtype=dtype, output_loading_info=True)
    except OSError as error:
        raise ModelNotFoundError(_not_loaded(source, local, error)) from error
    except Exception as error:
        # transformers reports damaged or foreign weights as RuntimeError, ValueError, UnpicklingError, ...
        raise WeightsError(f"the weights of {source!r} cannot be read: {_first_line(error)}") from error
    finally:
        logging.enable_progress_bar()
    # A missing weight would silently be a random one. Only the pooler is never used here.
    missing = sorted(key for key in info["missing_keys"] if "pooler." not in key)
    if missing:
        raise WeightsError(
            f"the weights of {source!r} are of another architecture than its config.json: {missing[0]!r} is missing"
        )
    return _vision_tower(model)


def _vision_tower(model: Any) -> nn.Module:
    """Let go of the text tower, if there is one."""
    return model.vision_model if type(model).__name__ in TWO_TOWERS else model


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _not_loaded(source: str, local: bool, error: Exception) -> str:
    if Path(source).is_dir():
        return f"the model in {source!r} cannot be loaded: {_first_line(error)}"
    if local:
        return (
            f"the model {source!r} is not on this machine and the hub cannot be reached; on a machine with a "
            f"network run 'hf download {source} --local-dir DIR', copy DIR here and give its path instead"
        )
    return f"the hub has no model {source!r} that can be loaded: {_first_line(error)}"


def preprocessing_of(source: str, config: Any) -> Preprocessing:
    """Read `preprocessor_config.json`; without one, ImageNet's numbers at the model's own size."""
    cached_file = import_transformers().utils.cached_file
    local = Path(source).is_dir() or not reachable()
    found: dict[str, Any] = {}
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = cached_file(
            source,
            name,
            local_files_only=local,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        if path and not found:
            content = json.loads(Path(path).read_text())
            found = content.get("image_processor", content)
    if not found:
        return default_preprocessing(config)
    return from_processor(found, default_preprocessing(config))


def default_preprocessing(config: Any) -> Preprocessing:
    """Return ImageNet's mean and standard deviation at the size that the model was trained with."""
    size = as_size(config.image_size)
    return Preprocessing(crop=size, resize=(round(size[0] / 0.875), round(size[1] / 0.875)))


def from_processor(found: dict[str, Any], default: Preprocessing) -> Preprocessing:
    """Translate the fields of a transformers image processor."""
    size, crop = found.get("size"), found.get("crop_size")
    squash = isinstance(size, dict) and "height" in size
    resize = _edges(size) if found.get("do_resize", True) and size is not None else None
    target = _edges(crop) if found.get("do_center_crop") and crop is not None else resize or default.crop
    return Preprocessing(
        crop=target,
        resize=resize,
        fit="squash" if squash else "cover",
        resample=int(found.get("resample") or 2),
        mean=tuple(found.get("image_mean") or IMAGENET_MEAN) if found.get("do_normalize", True) else (0.0,) * 3,
        std=tuple(found.get("image_std") or IMAGENET_STD) if found.get("do_normalize", True) else (1.0,) * 3,
        source="the model's preprocessor_config.json",
    )


def _edges(size: int | dict[str, int]) -> tuple[int, int]:
    """Return (height, width) of {"shortest_edge"} or {"height", "width"} or a number."""
    if isinstance(size, int):
        return size, size
    if "shortest_edge" in size:
        return size["shortest_edge"], size["shortest_edge"]
    return size["height"], size["width"]
