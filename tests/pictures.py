"""Flat pictures, told apart by their grey levels: what sets of images are tested with."""

from __future__ import annotations

import io

from PIL import Image

from raptor.preprocessing import Preprocessing

PLAIN = Preprocessing(crop=(8, 8), resize=None, mean=(0, 0, 0), std=(1, 1, 1))


def picture(value: int, mode: str = "RGB") -> Image.Image:
    """A flat picture: its grey level says which it is."""
    return Image.new("RGB", (8, 8), (value, value, value)).convert(mode)


def encoded(value: int) -> bytes:
    buffer = io.BytesIO()
    picture(value).save(buffer, "png")
    return buffer.getvalue()


def levels(images) -> list[int]:
    """Which pictures came, by their grey levels."""
    return [round(pixels.mean().item() * 255) for batch in images for pixels in batch.pixels]


def labels(images) -> list[int]:
    return [label for batch in images for label in batch.label.tolist()]
