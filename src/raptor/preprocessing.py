"""How an image becomes the pixels that a model was trained on.

Resize, centre crop, rescale and normalise with PIL and torch alone, because the libraries' own image
processors need torchvision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.errors import OptionError

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = tuple[int, int]


@dataclass(frozen=True)
class Preprocessing:
    """Resize, centre crop, scale, normalise.

    Parameters
    ----------
    crop
        Height and width of the pixels that the model gets.
    resize
        Height and width of the box that the image is resized for; None leaves its size.
    fit
        `cover` keeps the aspect ratio and covers the box (a square box: the shorter edge),
        `squash` takes exactly the box.
    resample
        PIL's filter number: 2 is bilinear, 3 bicubic.
    mean, std
        Per channel, of scaled values.
    rounding
        Where an odd margin goes: transformers rounds the crop's offset down, torchvision (timm) to the nearest.
    scale
        Factor on the bytes of an image before they are normalised.
    source
        Where these numbers come from, for the report.
    """

    crop: Size = (224, 224)
    resize: Size | None = (256, 256)
    fit: Literal["cover", "squash"] = "cover"
    resample: int = 3
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    rounding: Literal["down", "nearest"] = "down"
    scale: float = 1 / 255
    source: str = "the ImageNet default; the model brought no preprocessing of its own"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Preprocessing:
        """Return what `dataclasses.asdict` and JSON have made lists of."""
        given: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}
        return cls(**given)

    def at(self, size: Size) -> Preprocessing:
        """Return the same preprocessing for another crop, the resize scaled in proportion."""
        if size == self.crop or self.resize is None:
            return replace(self, crop=size)
        height, width = (
            max(new, round(box * new / old)) for box, new, old in zip(self.resize, size, self.crop, strict=True)
        )
        return replace(self, crop=size, resize=(height, width))

    def fitted(self, how: str) -> Preprocessing:
        """Return another way to the same crop: `own`, `squash` for the whole image, `pad` for one of its own size."""
        if how == "squash":
            return replace(self, resize=self.crop, fit="squash", source="the whole image, resized")
        if how == "pad":
            return replace(self, resize=None, source="the image's own size, centred")
        if how != "own":
            raise OptionError(f"images are fitted as own, squash or pad, not as {how!r}")
        return self

    def resized(self, size: Size) -> Size:
        """Return the height and width that an image of `size` is resized to."""
        if self.resize is None or self.fit == "squash":
            return self.resize or size
        (height, width), (box_height, box_width) = size, self.resize
        # The edge that decides gets the box's length exactly; the other is truncated, as both libraries do.
        if box_height * width >= box_width * height:
            return box_height, max(1, int(box_height * width / height))
        return max(1, int(box_width * height / width)), box_width

    def offset(self, size: Size) -> Size:
        """Return the top and left of the centre crop; negative where the image is smaller."""
        margins = (size[0] - self.crop[0], size[1] - self.crop[1])
        if self.rounding == "down":
            return margins[0] // 2, margins[1] // 2
        return round(margins[0] / 2), round(margins[1] / 2)

    def box(self, image: Image, resample: int | None = None) -> Image:
        """Resize and crop; what lies outside the image is black."""
        size = (image.height, image.width)
        if (target := self.resized(size)) != size:
            image = image.resize((target[1], target[0]), resample=self.resample if resample is None else resample)
        top, left = self.offset(target)
        return image.crop((left, top, left + self.crop[1], top + self.crop[0]))

    def normalize(self, pixels: Float[Tensor, "*batch 3 height width"]) -> Float[Tensor, "*batch 3 height width"]:
        """Normalise scaled pixels."""
        mean, std = pixels.new_tensor(self.mean), pixels.new_tensor(self.std)
        return (pixels - mean[:, None, None]) / std[:, None, None]

    def __call__(self, image: Image) -> Float[Tensor, "3 height width"]:
        """Return the pixels of an RGB image."""
        array = np.array(self.box(image), dtype=np.uint8)
        return self.normalize(torch.from_numpy(array).permute(2, 0, 1).float() * self.scale)
