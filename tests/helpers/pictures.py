"""Flat pictures, told apart by their grey levels: what sets of images are tested with."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image

from raptor.core.preprocessing import Preprocessing

# Real sets (camvid/, cifar100/), beside the project unless told otherwise; their tests skip where there are none.
REAL = Path(os.environ.get("RAPTOR_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")
PLAIN = Preprocessing(crop=(8, 8), resize=None, mean=(0, 0, 0), std=(1, 1, 1))


def picture(value: int, mode: str = "RGB") -> Image.Image:
    """A flat picture: its grey level says which it is."""
    return Image.new("RGB", (8, 8), (value, value, value)).convert(mode)


def save(array: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def encoded(value: int) -> bytes:
    buffer = io.BytesIO()
    picture(value).save(buffer, "png")
    return buffer.getvalue()


def levels(images) -> list[int]:
    """Which pictures came, by their grey levels."""
    return [round(pixels.mean().item() * 255) for batch in images for pixels in batch.pixels]


def labels(images) -> list[int]:
    return [label for batch in images for label in batch.label.tolist()]
