"""Preprocessing of images for a model: resize, centre crop, rescale, normalise.

It uses only PIL and torch, because the image processors of other libraries need torchvision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.errors import OptionError, one_line

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = tuple[int, int]

# Part of cache keys and of result.json, so this text must not change.
GUESSED = "the ImageNet default; the model brought no preprocessing of its own"

MOST_PIXELS = 2**15  # longest edge that a model can be given
LARGEST = 2**26  # pixels of the largest image that is resized as a whole


def _is_size(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2
    return pair and all(isinstance(edge, int) and 1 <= edge <= MOST_PIXELS for edge in value)


def _are_numbers(values: Any, n: int) -> bool:
    several = isinstance(values, tuple) and len(values) == n
    return several and all(isinstance(value, (int, float)) and math.isfinite(value) for value in values)


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of a model.

    Parameters
    ----------
    crop
        Height and width of the model's input, in pixels.
    resize
        Height and width of the box to resize to; None keeps the image's size.
    fit
        `cover` keeps the aspect ratio and covers the box (for a square box, the shorter edge gets its size);
        `squash` resizes to exactly the box.
    resample
        PIL's filter number: 2 is bilinear, 3 is bicubic.
    mean, std
        Per channel, applied to scaled values.
    rounding
        Rounding of the crop's offset: transformers rounds down, torchvision (timm) to the nearest integer.
    scale
        Factor that converts bytes to the values that are normalised.
    source
        Where these settings come from, for the report.
    """

    crop: Size = (224, 224)
    resize: Size | None = (256, 256)
    fit: Literal["cover", "squash"] = "cover"
    resample: int = 3
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    rounding: Literal["down", "nearest"] = "down"
    scale: float = 1 / 255
    source: str = GUESSED

    def __post_init__(self) -> None:
        if not _is_size(self.crop) or not (self.resize is None or _is_size(self.resize)):
            raise OptionError(
                f"crop {self.crop!r} and resize {self.resize!r} must be (height, width), each from 1 to {MOST_PIXELS} "
                "pixels"
            )
        if self.fit not in ("cover", "squash") or self.rounding not in ("down", "nearest"):
            raise OptionError(
                f"fit {self.fit!r} must be cover or squash, and rounding {self.rounding!r} must be down or nearest"
            )
        if not isinstance(self.resample, int) or not 0 <= self.resample <= 5:
            raise OptionError(f"resample {self.resample!r} is not one of PIL's filters, 0 to 5")
        if not (_are_numbers(self.mean, 3) and _are_numbers(self.std, 3) and _are_numbers((self.scale,), 1)):
            raise OptionError(
                f"mean {self.mean!r} and std {self.std!r} must be three numbers, and scale {self.scale!r} one number"
            )

    @classmethod
    def from_json(cls, fields: Any) -> Preprocessing:
        """Build a preprocessing from the JSON of `dataclasses.asdict`; raise an OptionError for anything else."""
        try:
            given: dict[str, Any] = {n: tuple(each) if isinstance(each, list) else each for n, each in fields.items()}
            return cls(**given)
        except (TypeError, AttributeError) as error:
            raise OptionError(f"the preprocessing cannot be read: {one_line(error)}") from error

    def at(self, size: Size) -> Preprocessing:
        """Return the same preprocessing for another crop size, with the resize box scaled in proportion."""
        if size == self.crop or self.resize is None:
            return replace(self, crop=size)
        height, width = (
            max(new, round(box * new / old)) for box, new, old in zip(self.resize, size, self.crop, strict=True)
        )
        return replace(self, crop=size, resize=(height, width))

    def in_words(self) -> str:
        """Return what is done to an image, in one sentence without its end."""
        resized = "" if self.resize is None else f"resized to {self.resize[0]}x{self.resize[1]}, "
        imagenet = (self.mean, self.std) == (IMAGENET_MEAN, IMAGENET_STD)
        scale = "the mean and std of ImageNet" if imagenet else f"mean {self.mean} and std {self.std}"
        return f"images are {resized}cropped to {self.crop[0]}x{self.crop[1]} and normalised with {scale}"

    def fitted(self, how: str) -> Preprocessing:
        """Return a variant with the same crop: `own` (unchanged), `squash` (whole image), `pad` (no resizing)."""
        if how == "squash":
            return replace(self, resize=self.crop, fit="squash", source="the whole image, resized")
        if how == "pad":
            return replace(self, resize=None, source="the image's own size, centred")
        if how != "own":
            raise OptionError(f"unknown fit {how!r}; use own, squash or pad")
        return self

    def resized(self, size: Size) -> Size:
        """Return the height and width to which an image of `size` is resized."""
        if self.resize is None or self.fit == "squash":
            return self.resize or size
        (height, width), (box_height, box_width) = size, self.resize
        # One edge gets exactly the length of the box; the other is truncated, as in transformers and torchvision.
        if box_height * width >= box_width * height:
            return box_height, max(1, int(box_height * width / height))
        return max(1, int(box_width * height / width)), box_width

    def offset(self, size: Size) -> Size:
        """Return the top and left offset of the centre crop; negative if the image is smaller."""
        margins = (size[0] - self.crop[0], size[1] - self.crop[1])
        if self.rounding == "down":
            return margins[0] // 2, margins[1] // 2
        return round(margins[0] / 2), round(margins[1] / 2)

    def box(self, image: Image, resample: int | None = None) -> Image:
        """Resize and crop an image; pixels outside it are black."""
        size, used = (image.height, image.width), self.resample if resample is None else resample
        target = self.resized(size)
        (top, left), (height, width) = self.offset(target), self.crop
        if target != size and target[0] * target[1] > LARGEST:
            # Resize only the visible part, so that an image of 10x20000 needs little memory.
            upper, before = max(top, 0), max(left, 0)
            lower, after = min(top + height, target[0]), min(left + width, target[1])
            down, across = size[0] / target[0], size[1] / target[1]
            seen = (before * across, upper * down, min(after * across, size[1]), min(lower * down, size[0]))
            image = image.resize((after - before, lower - upper), resample=used, box=seen)
            top, left = top - upper, left - before
        elif target != size:
            image = image.resize((target[1], target[0]), resample=used)
        return image.crop((left, top, left + width, top + height))

    def normalize(self, pixels: Float[Tensor, "*batch 3 height width"]) -> Float[Tensor, "*batch 3 height width"]:
        """Normalise scaled pixels."""
        mean, std = pixels.new_tensor(self.mean), pixels.new_tensor(self.std)
        return (pixels - mean[:, None, None]) / std[:, None, None]

    def __call__(self, image: Image) -> Float[Tensor, "3 height width"]:
        """Return the pixels of an RGB image."""
        array = np.array(self.box(image), dtype=np.uint8)
        return self.normalize(torch.from_numpy(array).permute(2, 0, 1).float() * self.scale)
