"""Preprocessed images on disk or in memory, so that many epochs over a set do not decode its images again.

A cached image is the resized and cropped one, in bytes; normalising it gives exactly the pixels of the first time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raptor.core.batches import Batch, LoadedImageSet
from raptor.core.preprocessing import Preprocessing
from raptor.data.decode import DamagedImage, decode
from raptor.data.images import Images
from raptor.data.records import Record, Records
from raptor.errors import DataError
from raptor.runtime.files import explained

PIXELS, DONE = ".pixels", ".done"
MOST_BYTES = 2**30  # of a set of images that is kept in memory


@dataclass(frozen=True)
class CachedRecords:
    """Records whose images are resized and cropped once and then read from a memory-mapped file.

    Parameters
    ----------
    records
        The images, not yet decoded.
    preprocessing
        How they are resized and cropped.
    pixels, done
        (images, height, width, 3) and (images,); an image is marked as done after its pixels were written.
    """

    records: Records
    preprocessing: Preprocessing
    pixels: NDArray[np.uint8]
    done: NDArray[np.uint8]

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, or None if the images have no labels."""
        return self.records.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """None: images with masks are not cached."""
        return None

    @property
    def n_mask_classes(self) -> int | None:
        """None: images with masks are not cached."""
        return None

    def __len__(self) -> int:
        return len(self.records)

    def __getattr__(self, name: str) -> Any:
        if name != "shards":
            raise AttributeError(name)
        return self.records.shards  # type: ignore[attr-defined]  # of records in shards

    def __getitem__(self, index: int) -> Record:
        record = self.records[index]
        if not self.done[index]:
            self.pixels[index] = np.asarray(self.preprocessing.box(decode(record.image)), dtype=np.uint8)
            self.done[index] = 1
        return replace(record, image=np.array(self.pixels[index]))

    def name_of(self, index: int) -> str:
        """Return the name of a record."""
        return self.records.name_of(index)

    def key_of(self, index: int) -> str:
        """Return the key of a record."""
        return self.records.key_of(index)


def cache_images(records: Records, preprocessing: Preprocessing, folder: Path) -> tuple[CachedRecords, Preprocessing]:
    """Return records that are decoded once, and the preprocessing of what is cached.

    Parameters
    ----------
    records
        The images, not yet decoded.
    preprocessing
        Preprocessing of the model.
    folder
        Directory of the cache; each set of images with its resizing and cropping has two files of its own in it.
    """
    first = records[0]
    if first.mask is not None or first.depth is not None:
        raise DataError("images with masks or depth cannot be cached: leave out --cache-images")
    boxed = (
        preprocessing.crop,
        preprocessing.resize,
        preprocessing.fit,
        preprocessing.resample,
        preprocessing.rounding,
    )
    keys = (records.key_of(index) for index in range(len(records)))
    name = hashlib.sha256("\n".join([repr(boxed), *keys]).encode()).hexdigest()[:24]
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        pixels = _mapped(folder / f"{name}{PIXELS}", (len(records), *preprocessing.crop, 3))
        done = _mapped(folder / f"{name}{DONE}", (len(records),))
    return CachedRecords(records, preprocessing, pixels, done), replace(preprocessing, resize=None)


def _mapped(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Open a file of bytes for reading and writing; a new one is all zeros and takes no space until it is written."""
    size = int(np.prod(shape))
    with open(path, "ab") as file:
        if file.tell() != size:
            file.truncate(size)
    return np.memmap(path, dtype=np.uint8, mode="r+", shape=shape)


def in_memory(images: LoadedImageSet) -> LoadedImageSet:
    """Return a set that keeps its images in memory from their first use on, if they take at most a gigabyte.

    Parameters
    ----------
    images
        Any set of images; one that is drawn or streamed is returned as it is.
    """
    if type(images) is not Images or images.process_group.world_size > 1:
        return images
    height, width = images.preprocessing.crop
    return InMemoryImages(images) if len(images) * 3 * height * width <= MOST_BYTES else images


class InMemoryImages(Images):
    """Images that are decoded at their first use and then kept in memory as bytes.

    Batches are exactly those of the set itself. A set with masks, depth or damaged images is not kept.

    Parameters
    ----------
    images
        The set.
    """

    def __init__(self, images: Images):
        super().__init__(images.records, images.preprocessing, images.batch_size, images.workers, images.allow_damaged)
        self._decoded: tuple[Tensor, Tensor] | None = None  # bytes and labels
        self._refused = False

    def _load(self, batches: Iterable[list[int]], endless: bool = False) -> Iterator[Batch]:
        if self._decoded is None and not self._refused:
            self._decoded = self._decode()
            self._refused = self._decoded is None
        if self._decoded is None:
            yield from super()._load(batches, endless)
            return
        pixels, labels = self._decoded
        for indices in batches:
            chosen = torch.tensor(indices)
            scaled = pixels[chosen].float() * self.preprocessing.scale
            label = None if self.classes is None else labels[chosen]
            names = [self.records.name_of(index) for index in indices]
            yield Batch(self.preprocessing.normalize(scaled), label, None, None, names)

    def _decode(self) -> tuple[Tensor, Tensor] | None:
        pixels = np.empty((len(self), 3, *self.preprocessing.crop), dtype=np.uint8)
        labels = torch.zeros(len(self), dtype=torch.long)
        for index in range(len(self)):
            record = self.records[index]
            if record.mask is not None or record.depth is not None:
                return None
            try:
                image = decode(record.image)
            except DamagedImage:
                return None
            pixels[index] = np.asarray(self.preprocessing.box(image), dtype=np.uint8).transpose(2, 0, 1)
            labels[index] = record.label or 0
        return torch.from_numpy(pixels), labels
