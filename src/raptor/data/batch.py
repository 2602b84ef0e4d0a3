"""What iterating over images gives."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Some images, preprocessed as a teacher wants them, with what is known about each.

    Parameters
    ----------
    pixels
        (batch, 3, height, width), normalised.
    label
        Class of each image, or None where the data has no labels.
    mask
        Class of each pixel, 255 where unlabelled, or None.
    depth
        Distance of each pixel, or None.
    path
        Where each image came from.
    spare
        Whether it only stands in for a part that is empty, so that a process can do what the others do: it does not
        count.
    """

    pixels: Float[Tensor, "batch 3 height width"]
    label: Int[Tensor, " batch"] | None
    mask: Int[Tensor, "batch rows columns"] | None
    depth: Float[Tensor, "batch rows columns"] | None
    path: list[str]
    spare: bool = False

    def __len__(self) -> int:
        return len(self.pixels)
