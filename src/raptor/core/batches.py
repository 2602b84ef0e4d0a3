"""Batches of images, and the interfaces of image sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from raptor.core.processes import Processes, SingleProcess
from raptor.errors import DataError


@dataclass(frozen=True)
class Batch:
    """Preprocessed images with their annotations.

    Parameters
    ----------
    pixels
        (batch, 3, height, width), normalised.
    label
        Class of each image, or None if the data has no labels.
    mask
        Class of each pixel, 255 if unlabelled; None if there are no masks.
    depth
        Distance of each pixel; None if there are no depth maps.
    path
        Source of each image.
    spare
        Whether this batch is padding for a process whose shard is empty; padding is not counted in results.
    """

    pixels: Float[Tensor, "batch 3 height width"]
    label: Int[Tensor, " batch"] | None
    mask: Int[Tensor, "batch rows columns"] | None
    depth: Float[Tensor, "batch rows columns"] | None
    path: list[str]
    spare: bool = False

    def __len__(self) -> int:
        return len(self.pixels)


@runtime_checkable
class RealOrSpare(Protocol):
    """A batch, or features of it, that may be padding."""

    @property
    def spare(self) -> bool:
        """Whether it is padding."""

    def __len__(self) -> int: ...


@runtime_checkable
class ImageSet(Protocol):
    """A set of images that can be iterated over any number of times, as measures need it.

    All attributes are cheap to read, because `isinstance` reads them.
    """

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, or None if the images have no labels."""

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the mask classes, or None if there are no masks or no names."""

    @property
    def n_mask_classes(self) -> int | None:
        """Number of mask classes, or None if it is not known."""

    @property
    def damaged(self) -> Sequence[dict[str, str]]:
        """Damaged images found so far, each with `path` and `reason`."""

    @property
    def process_group(self) -> Processes:
        """The processes that share the images."""

    def __len__(self) -> int:
        """Return the number of images."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield this process's shard of every batch."""

    def fit_eval_split(self) -> tuple[ImageSet, ImageSet]:
        """Split the set in two: one half to fit on, the other to evaluate on."""

    def with_batch_size(self, most: int) -> ImageSet:
        """Return the same images in batches of at most `most`."""

    def unsharded(self) -> ImageSet:
        """Return the same images without sharding: all of them in this process."""


@runtime_checkable
class LoadedImageSet(ImageSet, Protocol):
    """A set of images that can also be trained on, cached and compared; `load_images` returns one."""

    @property
    def batch_size(self) -> int:
        """Images per batch and process."""

    def image_keys(self) -> set[str]:
        """Return a unique key for each image."""

    def identity(self) -> str:
        """Return a text that identifies the images and their preprocessing."""

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches indefinitely, starting at a step.

        Parameters
        ----------
        first_step
            Step of the first batch.
        batch_size
            Images per batch.
        seed
            Seed of the order.
        part
            (i, n) yields only the i-th of n equal parts of each batch, for process i of n.
        """

    def shuffled_epochs(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """Yield training batches as `shuffled` does, in a new order in each epoch for every kind of set."""

    def fit_eval_split(self) -> tuple[LoadedImageSet, LoadedImageSet]:
        """Split the set in two: one half to fit on, the other to evaluate on."""

    def with_batch_size(self, most: int) -> LoadedImageSet:
        """Return the same images in batches of at most `most`."""

    def unsharded(self) -> LoadedImageSet:
        """Return the same images without sharding: all of them in this process."""

    def split_off(self, n: int) -> tuple[LoadedImageSet, LoadedImageSet]:
        """Return images to train on, and n others to validate on. The two have no image in common."""

    def sample(self, n: int) -> LoadedImageSet:
        """Return at most n of the images: a random sample that is always the same."""


# The images that a measure accepts: a set of images, or plain batches of pixels.
ImageSource = ImageSet | Iterable[Batch | Tensor]


class BatchList:
    """A set of images from plain batches, without class names.

    Parameters
    ----------
    batches
        Tensors of pixels, or `Batch`es.
    """

    classes: tuple[str, ...] | None = None
    mask_classes: tuple[str, ...] | None = None
    n_mask_classes: int | None = None
    damaged: tuple[dict[str, str], ...] = ()

    def __init__(self, batches: Iterable[Batch | Tensor]):
        self.batches = batches
        self.process_group: Processes = SingleProcess()

    def __len__(self) -> int:
        return self._n

    @cached_property
    def _n(self) -> int:
        return sum(map(len, self))

    def __iter__(self) -> Iterator[Batch]:
        return map(as_batch, self.batches)

    def fit_eval_split(self) -> tuple[ImageSet, ImageSet]:
        """Split the batches in two by taking every other one; split a single batch by images."""
        if iter(self.batches) is self.batches:  # an iterator can be read only once
            self.batches = list(self.batches)
        first = list(islice(self, 2))
        if len(first) == 2:
            return BatchList(_EveryOther(self.batches, 0)), BatchList(_EveryOther(self.batches, 1))
        n = sum(map(len, first))
        if n < 2:
            raise DataError(f"{n} images cannot be split into a fit and an evaluation half; use at least 2")
        middle = (n + 1) // 2
        return BatchList([_rows(first[0], slice(0, middle))]), BatchList([_rows(first[0], slice(middle, None))])

    def with_batch_size(self, most: int) -> ImageSet:
        """Return the same images in batches of at most `most`."""
        return BatchList(_Smaller(self, most))

    def unsharded(self) -> ImageSet:
        """Return the same images, because plain batches are never sharded."""
        return self


def as_image_set(images: ImageSource) -> ImageSet:
    """Return a set of images; plain batches are wrapped in a `BatchList`."""
    return images if isinstance(images, ImageSet) else BatchList(images)


def as_batch(batch: Batch | Tensor) -> Batch:
    """Return a batch; plain pixels become a batch without annotations."""
    return Batch(batch, None, None, None, [""] * len(batch)) if isinstance(batch, Tensor) else batch


def pixels_of(images: ImageSource) -> Iterator[Tensor]:
    """Yield the pixels of every batch."""
    for batch in images:
        yield batch if isinstance(batch, Tensor) else batch.pixels


def n_real(batch: RealOrSpare) -> int:
    """Return the number of images in a batch; 0 if it is padding."""
    return 0 if batch.spare else len(batch)


class _EveryOther:
    """Every other batch, from the first or the second on, without holding any in memory."""

    def __init__(self, batches: Iterable[Batch | Tensor], start: int):
        self.batches, self.start = batches, start

    def __iter__(self) -> Iterator[Batch | Tensor]:
        return islice(self.batches, self.start, None, 2)


class _Smaller:
    """The same batches, cut into pieces of at most `most` images."""

    def __init__(self, batches: Iterable[Batch], most: int):
        self.batches, self.most = batches, most

    def __iter__(self) -> Iterator[Batch | Tensor]:
        for batch in self.batches:
            for start in range(0, len(batch), self.most):
                yield _rows(batch, slice(start, start + self.most))


def _rows(batch: Batch, rows: slice) -> Batch:
    """Return a slice of a batch."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    parts: dict[str, Any] = {name: value[rows] for name, value in values.items() if isinstance(value, (Tensor, list))}
    return replace(batch, **parts)
