"""Tar shards in the format of webdataset: consecutive files with one key are a sample, such as `7.jpg` and `7.cls`.

The headers are read once; images are then read by their position in the file, so nothing is unpacked or kept.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raptor.data.records import Record
from raptor.errors import DataError, one_line

IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "ppm", "gif", "tif", "tiff")
LABEL = "cls"
MOST_LABEL_BYTES = 1000


@dataclass(frozen=True)
class TarRecords:
    """Images in tar shards.

    Parameters
    ----------
    files
        The shards.
    where
        (images, 3): number of the shard, first byte, bytes.
    labels, classes
        Class of each image and class names; None if an image has no label.
    """

    files: tuple[Path, ...]
    where: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...] | None
    mask_classes: None = None
    n_mask_classes: None = None

    @property
    def shards(self) -> Sequence[int]:
        """Number of the shard of every image."""
        found: list[int] = self.where[:, 0].tolist()
        return found

    def __len__(self) -> int:
        return len(self.where)

    def __getitem__(self, index: int) -> Record:
        shard, start, size = self.where[index].tolist()
        with open(self.files[shard], "rb") as file:
            file.seek(start)
            content = file.read(size)
        return Record(content, None if self.labels is None else int(self.labels[index]), self.name_of(index))

    def name_of(self, index: int) -> str:
        """Return the name of the shard and the first byte of the image."""
        return f"{self.files[int(self.where[index, 0])].name}@{int(self.where[index, 1])}"

    def key_of(self, index: int) -> str:
        """Return the path of the shard and the first byte of the image."""
        return f"{os.path.abspath(self.files[int(self.where[index, 0])])}@{int(self.where[index, 1])}"


def read_tars(files: Sequence[Path], source: str) -> TarRecords:
    """Read the headers of tar shards.

    Parameters
    ----------
    files
        The shards, in order.
    source
        Name of the data, for messages.
    """
    where, labels = list[tuple[int, int, int]](), list[str | None]()
    for number, path in enumerate(files):
        try:
            for start, size, label in _samples(path):
                where.append((number, start, size))
                labels.append(label)
        except (OSError, tarfile.TarError, EOFError) as error:
            raise DataError(
                f"{str(path)!r} is not a readable tar file ({one_line(error)}); "
                f"shards must be complete and not compressed"
            ) from error
    if not where:
        raise DataError(f"{source!r} has no images: samples of tar shards need a file such as KEY.jpg or KEY.png")
    values, classes = _classes(labels)
    return TarRecords(tuple(files), np.array(where, dtype=np.int64), values, classes)


def _samples(path: Path) -> Iterator[tuple[int, int, str | None]]:
    """Yield the first byte and the size of the image of every sample, and its label."""
    with tarfile.open(path, "r:") as archive:
        members = (member for member in _members(archive) if member.isreg())
        for _, group in groupby(members, key=lambda member: _key(member.name)):
            image, label = None, None
            for member in group:
                kind = _ending(member.name)
                if kind in IMAGES and image is None:
                    image = (member.offset_data, member.size)
                elif kind == LABEL and member.size <= MOST_LABEL_BYTES:
                    content = archive.extractfile(member)
                    label = None if content is None else content.read().decode("utf-8", "replace").strip()
            if image is not None:
                yield *image, label


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := archive.next()) is not None:
        vars(archive)["members"] = []  # it keeps all it has read
        yield member


def _key(name: str) -> str:
    folder, _, base = name.rpartition("/")
    return f"{folder}/{base.partition('.')[0]}"


def _ending(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[2].lower()


def _classes(labels: Sequence[str | None]) -> tuple[NDArray[np.int64] | None, tuple[str, ...] | None]:
    """Return the class of each image and the class names: numbers up to the largest, or sorted texts."""
    present = [label for label in labels if label is not None]
    if len(present) < len(labels):
        return None, None
    if all(label.isascii() and label.isdigit() and len(label) < 6 for label in present):
        numbers = np.array([int(label) for label in present], dtype=np.int64)
        return numbers, tuple(str(number) for number in range(int(numbers.max()) + 1))
    names = sorted(set(present))
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[label] for label in present], dtype=np.int64), tuple(names)
