"""Open a data source: its splits, each with a function that reads it."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Any

from raptor.data.folders import read_folder, split_folders
from raptor.data.nyu import open_files, open_labelled
from raptor.data.pairs import open_pairs
from raptor.data.records import Records
from raptor.data.splits import known_split
from raptor.data.streaming.tables import open_stream, stream_dataset
from raptor.data.streaming.tars import read_tars
from raptor.errors import DataError
from raptor.runtime.optional_imports import HUB_ID


def open_splits(
    text: str, image_column: str | None, label_column: str | None, stream: int | None = None
) -> dict[str, Any]:
    """Return a function that reads each split, by name; a dataset without splits has the name ''.

    Parameters
    ----------
    text, image_column, label_column, stream
        As in `load_images`; the text names no split.
    """
    path = Path(text)

    def table(files: list[Path]) -> Any:
        def read() -> Records:
            if stream is not None:
                return open_stream([os.path.abspath(file) for file in files], text, image_column, label_column, stream)
            from raptor.data.tables import open_parquet, read_table

            return read_table(open_parquet(files), text, image_column, label_column, (files[0].parent,))

        return read

    def tars(files: list[Path]) -> Any:
        return lambda: read_tars(files, text)

    if os.path.isdir(text):
        if shards := sorted(path.glob("*.tar")):
            return {name: tars(files) for name, files in _by_split(shards, text).items()}
        if parquet := sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet")):
            return {name: table(files) for name, files in _by_split(parquet, text).items()}
        if pairs := open_pairs(path) or open_files(path):
            return dict(pairs)
        if folders := split_folders(path):
            every = folders.values()
            return {name: lambda folder=folder: read_folder(folder, every) for name, folder in folders.items()}
        return {"": lambda: read_folder(path)}
    if path.suffix == ".mat" and os.path.isfile(text):
        return dict(open_labelled(path))
    if files := [path] if os.path.isfile(text) else _matching(text):
        if all(file.suffix == ".tar" for file in files):
            return {"": tars(files)}
        if any(file.suffix != ".parquet" for file in files):
            raise DataError(f"{text!r} is neither a folder of images, nor parquet files, nor tar shards")
        return {"": table(files)}
    if not HUB_ID.fullmatch(text):
        raise DataError(f"no folder, parquet file or dataset {text[:200]!r} exists")
    if stream is not None:
        return {
            known_split(split) or split: lambda files=files: open_stream(
                files, text, image_column, label_column, stream
            )
            for split, files in stream_dataset(text).items()
        }
    return _open_dataset(text, image_column, label_column)


def _matching(pattern: str) -> list[Path]:
    """Return the files that match a pattern; an empty list for text that cannot be a pattern."""
    try:
        return sorted(map(Path, glob.glob(pattern)))
    except (ValueError, RecursionError):
        return []


def _open_dataset(name: str, image_column: str | None, label_column: str | None) -> dict[str, Any]:
    from raptor.data.tables import cache_folders, open_dataset, read_table

    where = cache_folders()
    return {
        known_split(split) or split: lambda table=table: read_table(table, name, image_column, label_column, where)
        for split, table in open_dataset(name).items()
    }


def _by_split(files: list[Path], source: str) -> dict[str, list[Path]]:
    """Group shards by the split that their names begin with (`train-00000-of-00005.parquet`)."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(known_split(re.split(r"[-_.]", file.name)[0]) or "", []).append(file)
    if "" in groups and len(groups) > 1:
        raise DataError(
            f"some files of {source!r} are named after splits, but {groups[''][0].name!r} is not; select files "
            f"with a pattern such as '{source}/train-*{files[0].suffix}'"
        )
    return groups
