"""Cached arrays of many images, in memory or in memory-mapped files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from raptor.errors import OutputError, ResumeError, one_line
from raptor.runtime.files import LOCK, explained, read_json, writing

ABOUT = "cache.json"  # written last: a cache with this file is complete
PREFIX = "raptor-"  # of file names; files without it are never removed
SHARD_BYTES = 2**30  # most bytes of arrays in one file

# Named arrays of one image, or of several images along a first axis.
Row = dict[str, NDArray[Any]]


class Sharded:
    """Named arrays with one row per image, stored in consecutive shards.

    Parameters
    ----------
    shards
        Arrays by name. All shards have the same names, and the arrays of a shard have the same length.
    """

    def __init__(self, shards: Sequence[Row]):
        self.shards = list(shards)
        self.ends = np.cumsum([len(next(iter(shard.values()))) for shard in self.shards])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> Row:
        """Return the arrays of the images with these indices, in this order."""
        wanted = np.asarray(indices)
        which = np.searchsorted(self.ends, wanted, side="right")
        rows: Row = {}
        for name, like in self.shards[0].items():
            rows[name] = np.empty((len(wanted), *like.shape[1:]), like.dtype)
            for number in np.unique(which):
                here = which == number
                first = self.ends[number - 1] if number else 0
                rows[name][here] = self.shards[number][name][wanted[here] - first]
        return rows


@dataclass(frozen=True)
class Filling:
    """How to fill a cache.

    Parameters
    ----------
    rows
        `rows()` yields the arrays of all images in order, one image at a time.
    n, bytes_each
        Number of images, and bytes per image.
    what, otherwise
        What is cached, and what to do if it does not fit; both for messages.
    """

    rows: Callable[[], Iterable[Row]]
    n: int
    bytes_each: int
    what: str
    otherwise: str

    @property
    def size(self) -> str:
        """The size of the cache as text."""
        return f"{self.n * self.bytes_each / 1e9:.3g} GB of {self.what} of {self.n} images"


def in_memory(filling: Filling) -> Sharded:
    """Return the arrays of all images in memory."""
    return Sharded(list(_shards(filling)))


def open_cache(folder: Path, cache_key: dict[str, Any], filling: Filling, announce: Callable[[str], None]) -> Sharded:
    """Return the arrays that are cached in a folder; fill the cache first if it is empty.

    If several processes use one folder, the first fills it and the others wait.

    Parameters
    ----------
    folder
        Folder of the cache; created if it does not exist.
    cache_key
        What the arrays were computed from. A cache with another key is a ResumeError that names the difference.
    filling
        How to compute the arrays.
    announce
        Called with the size of the cache before anything is written.
    """
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            if not (folder / ABOUT).exists():
                _fill(folder, cache_key, filling, announce)
    try:
        stored = read_json(folder / ABOUT)
        differing = next((key for key, value in cache_key.items() if stored.get(key) != value), None)
        cache = _opened(folder, stored["shards"], filling) if differing is None else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ResumeError(f"the cache {str(folder)!r} is damaged ({one_line(error)}); remove it") from error
    if cache is None:
        raise ResumeError(
            f"the cache {str(folder)!r} has {differing} = {stored.get(differing)!r}, not "
            f"{cache_key[str(differing)]!r}; use another directory"
        )
    return cache


def _opened(folder: Path, shards: list[dict[str, str]], filling: Filling) -> Sharded:
    """Memory-map the files of a cache; raise a ValueError for files that `_fill` did not write."""
    if not isinstance(shards, list) or not shards or not all(shards):
        raise ValueError("cache.json lists no files")
    cache = Sharded([_read(folder, files) for files in shards])
    for shard in cache.shards:
        each = sum(array[:1].nbytes for array in shard.values())
        if len({len(array) for array in shard.values()}) != 1 or each != filling.bytes_each:
            raise ValueError(f"an image has {each} bytes, not {filling.bytes_each}")
        if {name: (array.dtype, array.shape[1:]) for name, array in shard.items()} != {
            name: (array.dtype, array.shape[1:]) for name, array in cache.shards[0].items()
        }:
            raise ValueError("its files have arrays of different shapes or types")
    if not 0 < len(cache) <= filling.n:
        raise ValueError(f"it has {len(cache)} images, not {filling.n}")
    return cache


def _read(folder: Path, files: dict[str, str]) -> Row:
    for file in files.values():
        if not file.startswith(PREFIX) or Path(file).name != file:
            raise ValueError(f"cache.json lists {file[:200]!r}, which is not a file of this cache")
    return {name: np.lib.format.open_memmap(folder / file, mode="r") for name, file in files.items()}


def _fill(folder: Path, cache_key: dict[str, Any], filling: Filling, announce: Callable[[str], None]) -> None:
    for left in [*folder.glob(f"{PREFIX}*.npy"), *folder.glob(f".{PREFIX}*.npy.*")]:
        left.unlink()  # left by a process that was killed
    need, free = filling.n * filling.bytes_each, shutil.disk_usage(folder).free
    announce(f"caching {filling.size} in {folder} ({free / 1e9:.3g} GB free)")
    if need > free:
        raise OutputError(
            f"{filling.size} do not fit on the disk of {str(folder)!r}, which has {free / 1e9:.3g} GB free; free some "
            f"space, use fewer images, or {filling.otherwise}"
        )
    shards: list[dict[str, str]] = []
    for number, arrays in enumerate(_shards(filling)):
        shards.append({name: f"{PREFIX}{name}-{number:05d}.npy" for name in arrays})
        for name, array in arrays.items():
            with writing(folder / shards[-1][name]) as file:
                np.save(file, array)
    with writing(folder / ABOUT) as file:
        file.write(json.dumps({**cache_key, "shards": shards}, indent=2).encode())


def _shards(filling: Filling) -> Iterator[Row]:
    """Yield stacked rows, as many at a time as fit in one file."""
    at_once = max(1, SHARD_BYTES // filling.bytes_each)
    pending: list[Row] = []
    for row in filling.rows():
        pending.append(row)
        if len(pending) == at_once:
            yield _stacked(pending)
            pending = []
    if pending:
        yield _stacked(pending)


def _stacked(rows: list[Row]) -> Row:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
