"""Parquet files and hub datasets that are read in order with `datasets` in streaming mode; nothing is copied to disk.

A row is found by its shard and its place in it. A shard is read forward, and the last rows that went by are kept: a
shuffle buffer asks for rows that are near each other.
"""

from __future__ import annotations

import bisect
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from raptor.data.records import Record
from raptor.data.tables import choose_columns, content_of, silence_datasets
from raptor.errors import DataError, one_line

OPEN = 8  # shards that a process reads at once
BATCH = 16  # rows that are read at once
BUFFER = 1000  # images within which training shuffles, and rows of a shard that are kept

Row = dict[str, Any]  # values of a table by column


@dataclass
class Cursor:
    """A shard that is read forward.

    Parameters
    ----------
    rows
        The rows from `place` on.
    place
        Row that comes next.
    kept
        Rows that went by.
    """

    rows: Iterator[Row]
    place: int
    kept: OrderedDict[int, Row] = field(default_factory=OrderedDict)

    def get(self, row: int, buffer: int) -> Row:
        """Return a row at or after the oldest one that is kept."""
        while self.place <= row:
            self.kept[self.place] = next(self.rows)
            self.place += 1
            if len(self.kept) > buffer:
                self.kept.popitem(last=False)
        return self.kept[row]

    def has(self, row: int) -> bool:
        """Return whether a row is kept, or comes soon."""
        return row in self.kept or row >= self.place


@dataclass
class StreamRecords:
    """Rows of parquet files, read in order.

    Parameters
    ----------
    files, counts
        Shards (paths or addresses), and their numbers of rows.
    image_column, label_column, classes
        Columns, and class names; None without labels.
    name
        Name of the data, for messages.
    buffer
        Rows of a shard that are kept.
    """

    files: tuple[str, ...]
    counts: tuple[int, ...]
    image_column: str
    label_column: str | None
    classes: tuple[str, ...] | None
    name: str
    buffer: int = BUFFER
    mask_classes: None = None
    n_mask_classes: None = None

    def __post_init__(self) -> None:
        self.ends = list(accumulate(self.counts))
        self.cursors: OrderedDict[int, Cursor] = OrderedDict()
        self.process = os.getpid()

    @property
    def shards(self) -> Sequence[int]:
        """Number of the shard of every image."""
        return [shard for shard, count in enumerate(self.counts) for _ in range(count)]

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, index: int) -> Record:
        shard = bisect.bisect_right(self.ends, index)
        row = self._row(shard, index - (self.ends[shard - 1] if shard else 0))
        label = None if self.label_column is None else row[self.label_column]
        if isinstance(label, str) and self.classes is not None:
            label = self.classes.index(label)
        content = content_of(row[self.image_column])
        return Record(content, None if label is None else int(label), self.name_of(index))

    def name_of(self, index: int) -> str:
        """Return the name of the data and the row."""
        return f"{self.name}[{index}]"

    def key_of(self, index: int) -> str:
        """Return the file and the row in it."""
        shard = bisect.bisect_right(self.ends, index)
        return f"{self.files[shard]}[{index - (self.ends[shard - 1] if shard else 0)}]"

    def _row(self, shard: int, row: int) -> Row:
        if self.process != os.getpid():  # a worker must not move the files that its parent reads
            self.cursors, self.process = OrderedDict(), os.getpid()
        if shard not in self.cursors or not self.cursors[shard].has(row):
            start = max(0, row - self.buffer)
            rows = _rows(self.files[shard], self.image_column, self.label_column, start)
            self.cursors[shard] = Cursor(rows, start)
        self.cursors.move_to_end(shard)
        if len(self.cursors) > OPEN:
            self.cursors.popitem(last=False)
        try:
            return self.cursors[shard].get(row, self.buffer)
        except Exception as error:  # of files that change or of a network, through arrow and fsspec
            raise DataError(f"{self.files[shard]!r} cannot be read at row {row}: {one_line(error)}") from error


def _stream(file: str) -> Any:
    """Open a parquet file in streaming mode; the folder in which `datasets` leaves locks is removed at once."""
    import datasets

    with silence_datasets(), tempfile.TemporaryDirectory() as locks:
        return datasets.load_dataset("parquet", data_files=[file], split="train", streaming=True, cache_dir=locks)


def _rows(file: str, image: str, label: str | None, start: int) -> Iterator[Row]:
    """Yield the rows of a shard from `start` on, with undecoded images."""
    import datasets

    columns = [name for name in (image, label) if name is not None]
    rows = _stream(file).select_columns(columns)
    if isinstance((rows.features or {}).get(image), datasets.Image):
        rows = rows.cast_column(image, datasets.Image(decode=False))
    # In a worker process, plain iteration would give each worker a part of the shards.
    for batch in (rows.skip(start) if start else rows).iter(batch_size=BATCH):
        for number in range(len(batch[image])):
            yield {name: batch[name][number] for name in columns}


class StreamTable:
    """What choosing columns needs to know of parquet files: names, types, and the values of one column.

    Parameters
    ----------
    files
        Paths or addresses.
    """

    def __init__(self, files: Sequence[str]):
        self.files = tuple(files)
        rows = _stream(self.files[0])
        self.features = rows.features or rows._resolve_features().features
        self.column_names = list(self.features)

    def counts(self) -> tuple[int, ...]:
        """Return the number of rows of each file, from its footer."""
        return tuple(_parquet(file, lambda opened: opened.metadata.num_rows) for file in self.files)

    def unique(self, column: str) -> list[Any]:
        """Return the different values of a column; only this column is read."""
        values: set[Any] = set()
        for file in self.files:
            values |= set(_parquet(file, lambda opened: opened.read([column])[column].unique().to_pylist()))
        return list(values)


def _parquet(file: str, read: Any) -> Any:
    import fsspec
    from pyarrow.parquet import ParquetFile

    with fsspec.open(file, "rb") as opened:
        return read(ParquetFile(opened))


def open_stream(
    files: Sequence[str], source: str, image_column: str | None, label_column: str | None, buffer: int
) -> StreamRecords:
    """Open parquet files for reading in order.

    Parameters
    ----------
    files
        Paths or addresses.
    source
        Name of the data, for messages.
    image_column, label_column
        Names of the columns, or None to detect them.
    buffer
        Images within which training shuffles.
    """
    try:
        table = StreamTable(files)
        counts = table.counts()
    except Exception as error:
        raise DataError(
            f"{source!r} cannot be streamed, because {files[0]!r} is not a readable parquet file: {one_line(error)}"
        ) from error
    image, label, classes = choose_columns(table, source, image_column, label_column)
    return StreamRecords(tuple(files), counts, image, label, classes, source, buffer)


def stream_dataset(name: str) -> dict[str, list[str]]:
    """Return the parquet files of each split of a dataset id or of a local dataset folder, without reading them."""
    import datasets

    try:
        with silence_datasets(), tempfile.TemporaryDirectory() as locks:
            found = datasets.load_dataset_builder(name, cache_dir=locks).config.data_files
        splits = {str(split): [str(file) for file in files] for split, files in (found or {}).items()}
    except Exception as error:
        raise DataError(
            f"{name!r} is not a local path, and no dataset with this id can be streamed ({one_line(error)}); without a "
            "network, use a folder of images, parquet files or tar shards"
        ) from error
    others = [file for files in splits.values() for file in files if not file.partition("@")[0].endswith(".parquet")]
    if others or not splits:
        raise DataError(
            f"{name!r} is not stored as parquet files, so --stream cannot read it; leave out --stream, or stream its "
            f"tar shards from a local folder{f' (first file: {others[0][:200]!r})' if others else ''}"
        )
    return splits
