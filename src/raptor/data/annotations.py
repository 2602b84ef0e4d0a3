"""Masks and depth maps, resized and cropped like their image with nearest-neighbour sampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from raptor.core.preprocessing import Preprocessing, Size
from raptor.data.decode import DamagedImage, opened
from raptor.data.records import Mask
from raptor.errors import DataError

UNLABELLED = 255
NEAREST = 0  # PIL's filter number


def read_mask(mask: Mask, size: Size, preprocessing: Preprocessing, name: str) -> Int[Tensor, "height width"]:
    """Return the class id of each pixel; 255 for unlabelled pixels and for pixels outside the image.

    Parameters
    ----------
    mask
        Source of the ids, and how they are numbered.
    size
        Height and width of the image.
    preprocessing
        Preprocessing of the image.
    name
        Name of the image, for error messages.
    """
    named = str(mask.source) if isinstance(mask.source, Path) else f"the mask of {name}"
    ids = _read(mask.source) if isinstance(mask.source, Path) else mask.source
    _check_size(ids, size, named, "mask")
    ids = ids.astype(np.int32)
    if mask.from_one:
        ids = np.where((ids == 0) | (ids == UNLABELLED), UNLABELLED, ids - 1)
    odd = ids[(ids != UNLABELLED) & ((ids < 0) | (ids >= (mask.n_classes or UNLABELLED)))]
    if odd.size:
        n = mask.n_classes or UNLABELLED
        raise DataError(
            f"{named!r} has the class id {odd[0] + mask.from_one}; ids must be from {int(mask.from_one)} to "
            f"{n - 1 + mask.from_one}, or {UNLABELLED} for unlabelled pixels"
        )
    shown = _boxed(ids + 1, preprocessing)  # so that 0 means outside the image
    return torch.where(shown == 0, UNLABELLED, shown - 1).long()


def read_depth(
    depth: NDArray[np.float32], size: Size, preprocessing: Preprocessing, name: str
) -> Float[Tensor, "height width"]:
    """Return the depth of each pixel; 0 if it is unknown."""
    _check_size(depth, size, f"the depth of {name}", "depth map")
    return _boxed(np.nan_to_num(depth.astype(np.float32), posinf=0.0, neginf=0.0), preprocessing)


def _read(path: Path) -> NDArray[Any]:
    try:
        with opened(path) as image:
            image.load()
            mode, ids = image.mode, np.asarray(image)
    except DamagedImage as error:
        raise DataError(f"the mask {str(path)!r} cannot be read: {error}") from error
    if mode not in ("L", "P", "1", "I", "I;16", "I;16B"):
        raise DataError(f"the mask {str(path)!r} is an image of mode {mode}; class ids need one integer channel")
    return ids


def _check_size(values: NDArray[Any], size: Size, named: str, what: str) -> None:
    if values.shape != size:
        found = "x".join(map(str, values.shape))
        raise DataError(f"{named!r} is a {what} of {found} pixels, but its image has {size[0]}x{size[1]}")


def _boxed(values: NDArray[Any], preprocessing: Preprocessing) -> Tensor:
    return torch.from_numpy(np.array(preprocessing.box(Image.fromarray(values), NEAREST)))
