"""Records: the images of a dataset before they are decoded.

Folders and tables share this interface: a length, and for each index an encoded image, a label and a name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from raptor.errors import DataError


@dataclass(frozen=True)
class Mask:
    """Class ids of the pixels of an image, not yet read.

    Parameters
    ----------
    source
        Image file with the ids, or an array.
    n_classes
        Number of classes, or None if it is not known. Ids are smaller, or 255 for unlabelled pixels.
    from_one
        Whether ids start at 1, with 0 for unlabelled pixels.
    """

    source: Path | NDArray[Any]
    n_classes: int | None = None
    from_one: bool = False


@dataclass(frozen=True)
class Record:
    """One image, not yet decoded, with its annotations; depth is 0 where it was not measured."""

    image: Path | bytes | NDArray[np.uint8]
    label: int | None
    name: str
    mask: Mask | None = None
    depth: NDArray[np.float32] | None = None


@runtime_checkable
class Records(Protocol):
    """An indexable set of records."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, or None if the images have no labels."""

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the mask classes, or None if there are no masks or no names."""

    @property
    def n_mask_classes(self) -> int | None:
        """Number of mask classes, or None if it is not known."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Record: ...

    def name_of(self, index: int) -> str:
        """Return the name of a record without reading its image."""

    def key_of(self, index: int) -> str:
        """Return a key that identifies the image across datasets: its location."""


@dataclass(frozen=True)
class Files:
    """Files below a folder, one per image."""

    root: Path
    files: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.files)

    def name_of(self, index: int) -> str:
        """Return the path relative to the folder."""
        return str(self.files[index].relative_to(self.root))

    def key_of(self, index: int) -> str:
        """Return the absolute path."""
        return os.path.abspath(self.files[index])


@dataclass(frozen=True)
class FolderRecords(Files):
    """Image files, optionally labelled by their folder."""

    labels: tuple[int, ...] | None = None
    classes: tuple[str, ...] | None = None
    mask_classes: None = None
    n_mask_classes: None = None

    def __getitem__(self, index: int) -> Record:
        path = self.files[index]
        label = None if self.labels is None else self.labels[index]
        return Record(path, label, self.name_of(index))


@dataclass(frozen=True)
class TableRecords:
    """Rows of a `datasets` table with undecoded images."""

    table: Any
    image_column: str
    label_column: str | None
    classes: tuple[str, ...] | None
    name: str
    folders: tuple[Path, ...]
    mask_classes: None = None
    n_mask_classes: None = None

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def rows(self) -> Any:
        """The table with only the image and label columns; others may have values that cannot be decoded."""
        return self.table.select_columns([name for name in (self.image_column, self.label_column) if name is not None])

    def __getitem__(self, index: int) -> Record:
        row = self.rows[index]
        value, label = row[self.image_column], None if self.label_column is None else row[self.label_column]
        content = value.get("bytes") if isinstance(value, dict) else value
        if content is None and isinstance(value, dict) and value.get("path"):
            content = self._beside(str(value["path"]), index)
        if isinstance(label, str) and self.classes is not None:
            label = self.classes.index(label)
        # The decoder reports a missing image as damaged, with its row.
        return Record(b"" if content is None else content, None if label is None else int(label), self.name_of(index))

    def _beside(self, path: str, index: int) -> Path:
        """Return the file that a row names; an untrusted table must not name files outside its folders."""
        try:
            found = (self.folders[0] / path).resolve()
            inside = any(found.is_relative_to(folder.resolve()) for folder in self.folders)
        except (OSError, RuntimeError, ValueError):  # impossible names, and symbolic links in a circle
            inside = False
        if not inside:
            raise DataError(
                f"{self.name_of(index)} names the file {path[:200]!r}; images must be in the table, or in files below "
                f"{str(self.folders[0])!r}"
            )
        return found

    def name_of(self, index: int) -> str:
        """Return the name of the table and the row."""
        return f"{self.name}[{index}]"

    def key_of(self, index: int) -> str:
        """Return the fingerprint of the table and the row."""
        return f"{self.table._fingerprint}[{index}]"


@dataclass(frozen=True)
class Subset:
    """Some of the records, in a given order."""

    records: Records
    indices: Sequence[int]

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names of the whole dataset."""
        return self.records.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the mask classes of the whole dataset."""
        return self.records.mask_classes

    @property
    def n_mask_classes(self) -> int | None:
        """Number of mask classes of the whole dataset."""
        return self.records.n_mask_classes

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Record:
        return self.records[self.indices[index]]

    def name_of(self, index: int) -> str:
        """Return the name in the whole dataset."""
        return self.records.name_of(self.indices[index])

    def key_of(self, index: int) -> str:
        """Return the key in the whole dataset."""
        return self.records.key_of(self.indices[index])


def check_column(wanted: str, columns: Sequence[str], kind: str) -> str:
    """Return a column name; raise a DataError that lists the columns if it does not exist."""
    if wanted not in columns:
        raise DataError(f"no {kind} column {wanted!r} exists; the columns are {', '.join(columns)}")
    return wanted
