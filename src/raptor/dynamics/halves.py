"""Two halves of a set of images: what is fitted on one is judged on the other, and each image is run once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from torch import Tensor

from raptor.errors import DataError

Halves = tuple[Iterable[Any], Iterable[Any]]


def in_halves(images: Any) -> Halves:
    """Part images in two: those of `load_images` at random, once for all; of batches, every other one."""
    if hasattr(images, "halves"):
        found: Halves = images.halves()
        return found
    batches = list(images)
    if len(batches) == 1 and len(batches[0]) > 1:
        middle = (len(batches[0]) + 1) // 2
        return [_rows(batches[0], slice(0, middle))], [_rows(batches[0], slice(middle, None))]
    if len(batches) < 2:
        raise DataError("what is fitted on one half of the images is judged on the other: at least two are needed")
    return batches[::2], batches[1::2]


def _rows(batch: Any, rows: slice) -> Any:
    """Return some images of a batch, of pixels alone or with what is known of them."""
    if isinstance(batch, Tensor):
        return batch[rows]
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{name: None if value is None else value[rows] for name, value in values.items()})
