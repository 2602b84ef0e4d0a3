"""Preprocessed images on disk or in memory, so that many epochs over a set do not decode its images again.

A cached image is the resized and cropped one, in bytes; normalising it gives exactly the pixels of the first time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from raptor.core.batches import Batch, LoadedImageSet
from raptor.core.preprocessing import Preprocessing
from raptor.data.decode import DamagedImage, decode
from raptor.data.images import Images
from raptor.data.records import Record, Records
from raptor.errors import DataError
from raptor.runtime.files import explained

PIXELS, DONE = ".pixels", ".done"
PLACE = re.compile(r"(@\d+|\[\d+\])$")  # of an image in its file, at the end of a key
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
    name = hashlib.sha256("\n".join([repr(boxed), *_keys(records)]).encode()).hexdigest()[:24]
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        pixels = _mapped(folder / f"{name}{PIXELS}", (len(records), *preprocessing.crop, 3))
        done = _mapped(folder / f"{name}{DONE}", (len(records),))
    return CachedRecords(records, preprocessing, pixels, done), replace(preprocessing, resize=None)


def _keys(records: Records) -> Iterator[str]:
    """Yield the key of every record with size and time of its file: a file that was replaced has another cache."""
    last, stamp = "", ""
    for index in range(len(records)):
        key = records.key_of(index)
        file = PLACE.sub("", key)
        if file != last:
            last, stamp = file, ""
            if os.path.isfile(file):  # and not an address or a table
                found = os.stat(file)
                stamp = f" {found.st_size} {found.st_mtime_ns}"
        yield key + stamp


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

    Batches are exactly those of the set itself. From the first damaged image on, and with masks or depth, images are
    read as in the set itself.

    Parameters
    ----------
    images
        The set.
    """

    def __init__(self, images: Images):
        super().__init__(images.records, images.preprocessing, images.batch_size, images.workers, images.allow_damaged)
        self._pixels = torch.empty(len(images), 3, *images.preprocessing.crop, dtype=torch.uint8)
        self._labels = torch.zeros(len(images), dtype=torch.long)
        self._decoded = [False] * len(images)
        self._keeps = True

    def _load(self, batches: Iterable[list[int]], endless: bool = False) -> Iterator[Batch]:
        rest = iter(batches)
        for indices in rest:
            self._keeps = self._keeps and all(self._decoded[index] or self._decode(index) for index in indices)
            if not self._keeps:
                yield from super()._load(chain([indices], rest), endless)
                return
            chosen = torch.tensor(indices)
            scaled = self._pixels[chosen].float() * self.preprocessing.scale
            label = None if self.classes is None else self._labels[chosen]
            names = [self.records.name_of(index) for index in indices]
            yield Batch(self.preprocessing.normalize(scaled), label, None, None, names)

    def _decode(self, index: int) -> bool:
        """Keep an image; return whether that is possible."""
        record = self.records[index]
        if record.mask is not None or record.depth is not None:
            return False
        try:
            image = self.preprocessing.box(decode(record.image))
        except DamagedImage:
            return False
        self._pixels[index] = torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1)
        self._labels[index] = record.label or 0
        self._decoded[index] = True
        return True
