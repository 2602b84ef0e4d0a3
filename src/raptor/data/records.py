"""Records: what a data set has of each image before it is decoded.

A folder and a table look the same from here on: a length, an undecoded image, a label and a name.
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
    """Class ids of pixels, not yet read.

    Parameters
    ----------
    source
        An image file of ids, or the ids themselves.
    n_classes
        Ids are below it, or 255 where unlabelled; None where nobody says.
    from_one
        Ids count from 1, and 0 is unlabelled.
    """

    source: Path | NDArray[Any]
    n_classes: int | None = None
    from_one: bool = False


@dataclass(frozen=True)
class Record:
    """One image, not yet decoded, with what is known of it; depth is 0 where it was not measured."""

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
        """Names of the classes, or None where there are no labels."""

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the classes of pixels, or None where there are no masks or no names."""

    @property
    def n_mask_classes(self) -> int | None:
        """How many classes of pixels there are, or None where nobody says."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Record: ...

    def name_of(self, index: int) -> str:
        """Return the name of a record without reading its image."""

    def key_of(self, index: int) -> str:
        """Return what tells the image from those of all other sets: where it lies."""


@dataclass(frozen=True)
class Files:
    """Files below a folder, one an image."""

    root: Path
    files: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.files)

    def name_of(self, index: int) -> str:
        """Return the path within the folder."""
        return str(self.files[index].relative_to(self.root))

    def key_of(self, index: int) -> str:
        """Return the whole path."""
        return os.path.abspath(self.files[index])


@dataclass(frozen=True)
class FolderRecords(Files):
    """Image files, labelled by the folder that they lie in or not at all."""

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
    """Rows of a `datasets` table whose image column is left undecoded."""

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
        """The columns that are needed: others may hold what cannot be decoded."""
        return self.table.select_columns([name for name in (self.image_column, self.label_column) if name is not None])

    def __getitem__(self, index: int) -> Record:
        row = self.rows[index]
        value, label = row[self.image_column], None if self.label_column is None else row[self.label_column]
        content = value.get("bytes") if isinstance(value, dict) else value
        if content is None and isinstance(value, dict) and value.get("path"):
            content = self._beside(str(value["path"]), index)
        if isinstance(label, str) and self.classes is not None:
            label = self.classes.index(label)
        # An absent image is left to the decoder, which reports it as damaged with its row.
        return Record(b"" if content is None else content, None if label is None else int(label), self.name_of(index))

    def _beside(self, path: str, index: int) -> Path:
        """Return the file that a row names; a table from anybody may name files that are nobody's business."""
        try:
            found = (self.folders[0] / path).resolve()
            inside = any(found.is_relative_to(folder.resolve()) for folder in self.folders)
        except (OSError, RuntimeError, ValueError):  # what no file can be called, and links in a circle
            inside = False
        if not inside:
            raise DataError(
                f"{self.name_of(index)} names the file {path[:200]!r}; images are in the table or in files below "
                f"{str(self.folders[0])!r}"
            )
        return found

    def name_of(self, index: int) -> str:
        """Return the row of the table."""
        return f"{self.name}[{index}]"

    def key_of(self, index: int) -> str:
        """Return the row of the table, named by its files and split."""
        return f"{self.table._fingerprint}[{index}]"


@dataclass(frozen=True)
class Subset:
    """Some of the records, in the order given."""

    records: Records
    indices: Sequence[int]

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes of the whole set."""
        return self.records.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the classes of pixels of the whole set."""
        return self.records.mask_classes

    @property
    def n_mask_classes(self) -> int | None:
        """How many there are of them."""
        return self.records.n_mask_classes

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Record:
        return self.records[self.indices[index]]

    def name_of(self, index: int) -> str:
        """Return the name within the whole set."""
        return self.records.name_of(self.indices[index])

    def key_of(self, index: int) -> str:
        """Return where the image lies."""
        return self.records.key_of(self.indices[index])


def check_column(wanted: str, columns: Sequence[str], kind: str) -> str:
    """Return the column that the user named, or say which there are."""
    if wanted not in columns:
        raise DataError(f"there is no {kind} column {wanted!r}; the columns are {', '.join(columns)}")
    return wanted
