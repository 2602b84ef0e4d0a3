"""Preprocessed images on disk, so that many epochs over a set do not decode its images again.

A cached image is the resized and cropped one, in bytes; normalising it gives exactly the pixels of the first time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raptor.core.preprocessing import Preprocessing
from raptor.data.decode import decode
from raptor.data.records import Record, Records
from raptor.errors import DataError
from raptor.runtime.files import explained

PIXELS, DONE = ".pixels", ".done"
PLACE = re.compile(r"(@\d+|\[\d+\])$")  # of an image in its file, at the end of a key


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
