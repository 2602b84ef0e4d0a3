"""Two halves of a set of images: what is fitted on one is judged on the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

from torch import Tensor

from raptor.errors import DataError
from raptor.flow import pixels_of

Halves = tuple[Iterable[Any], Iterable[Any]]


def in_halves(images: Any) -> Halves:
    """Part images in two: those of `load_images` at random, once for all; of batches, every other one."""
    if hasattr(images, "halves"):
        found: Halves = images.halves()
        return found
    if iter(images) is images:  # can be gone through but once
        images = list(images)
    first = list(islice(images, 2))
    if len(first) == 2:
        return _Every(images, 0), _Every(images, 1)
    n = sum(map(len, pixels_of(first)))
    if n < 2:
        raise DataError("what is fitted on one half of the images is judged on the other: at least two are needed")
    return [_rows(first[0], slice(0, (n + 1) // 2))], [_rows(first[0], slice((n + 1) // 2, None))]


class _Every:
    """Every other batch, from the first or the second on; none is held."""

    def __init__(self, images: Iterable[Any], start: int):
        self.images, self.start = images, start

    def __iter__(self) -> Iterator[Any]:
        return islice(self.images, self.start, None, 2)


def _rows(batch: Any, rows: slice) -> Any:
    """Return some images of a batch, of pixels alone or with what is known of them."""
    if isinstance(batch, Tensor):
        return batch[rows]
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{name: value[rows] for name, value in values.items() if isinstance(value, (Tensor, list))})
