"""Arrays of many images, in memory or in memory-mapped files: written once, whole or not there."""

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
from raptor.files import LOCK, explained, read_json, writing

ABOUT = "cache.json"  # written last: a cache that has it is whole
PREFIX = "raptor-"  # of the files' names: those without it are left alone
SHARD_BYTES = 2**30  # of the arrays in one file, at most

# What there is of an image, or of several with one more axis in front.
Row = dict[str, NDArray[Any]]


class Sharded:
    """Rows of named arrays, one an image, in parts that follow one another.

    Parameters
    ----------
    shards
        The same names in each, and one length of all arrays of a shard.
    """

    def __init__(self, shards: Sequence[Row]):
        self.shards = list(shards)
        self.ends = np.cumsum([len(next(iter(shard.values()))) for shard in self.shards])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> Row:
        """Return the arrays of some images, in the order asked for."""
        wanted = np.asarray(indices)
        which = np.searchsorted(self.ends, wanted, side="right")
        found: Row = {}
        for name, like in self.shards[0].items():
            found[name] = np.empty((len(wanted), *like.shape[1:]), like.dtype)
            for number in np.unique(which):
                here = which == number
                first = self.ends[number - 1] if number else 0
                found[name][here] = self.shards[number][name][wanted[here] - first]
        return found


@dataclass(frozen=True)
class Filling:
    """How a cache is filled.

    Parameters
    ----------
    rows
        Gives the arrays of all images in order, one image at a time.
    n, bytes_each
        How many images there are and what each takes: the size is told before anything is written.
    what, otherwise
        What is kept, and what to do where it does not fit, for messages.
    """

    rows: Callable[[], Iterable[Row]]
    n: int
    bytes_each: int
    what: str
    otherwise: str

    @property
    def size(self) -> str:
        """How much it is, in words."""
        return f"{self.n * self.bytes_each / 1e9:.3g} GB of {self.what} of {self.n} images"


def in_memory(filling: Filling) -> Sharded:
    """Keep the arrays of all images in memory."""
    return Sharded(list(_shards(filling)))


def open_cache(folder: Path, about: dict[str, Any], filling: Filling, announce: Callable[[str], None]) -> Sharded:
    """Return the arrays in a folder, filled before if it is not there yet.

    Of several processes with one folder the first fills it, and the others wait for it.

    Parameters
    ----------
    folder
        Made if it is missing.
    about
        What the arrays are of; a folder that holds those of something else is an error that names what differs.
    filling
        How they are made.
    announce
        Told the size before anything is written.
    """
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            if not (folder / ABOUT).exists():
                _fill(folder, about, filling, announce)
    try:
        found = read_json(folder / ABOUT)
        differing = next((key for key, value in about.items() if found.get(key) != value), None)
        cache = _opened(folder, found["shards"], filling) if differing is None else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ResumeError(f"the cache {str(folder)!r} is damaged ({one_line(error)}); remove it") from error
    if cache is None:
        raise ResumeError(
            f"the cache {str(folder)!r} was made with {differing} = {found.get(differing)!r}, not "
            f"{about[str(differing)]!r}; use another directory"
        )
    return cache


def _opened(folder: Path, shards: list[dict[str, str]], filling: Filling) -> Sharded:
    """Map the files of a cache; those that are not what `_fill` writes are a ValueError."""
    if not isinstance(shards, list) or not shards or not all(shards):
        raise ValueError("it lists no files")
    cache = Sharded([_read(folder, files) for files in shards])
    for shard in cache.shards:
        each = sum(array[:1].nbytes for array in shard.values())
        if len({len(array) for array in shard.values()}) != 1 or each != filling.bytes_each:
            raise ValueError("its arrays are of another size")
        if {name: (array.dtype, array.shape[1:]) for name, array in shard.items()} != {
            name: (array.dtype, array.shape[1:]) for name, array in cache.shards[0].items()
        }:
            raise ValueError("its arrays are not alike")
    if not 0 < len(cache) <= filling.n:
        raise ValueError(f"it does not hold the {filling.n} images")
    return cache


def _read(folder: Path, files: dict[str, str]) -> Row:
    for file in files.values():
        if not file.startswith(PREFIX) or Path(file).name != file:
            raise ValueError(f"it names the file {file[:200]!r}")
    return {name: np.lib.format.open_memmap(folder / file, mode="r") for name, file in files.items()}


def _fill(folder: Path, about: dict[str, Any], filling: Filling, announce: Callable[[str], None]) -> None:
    for left in [*folder.glob(f"{PREFIX}*.npy"), *folder.glob(f".{PREFIX}*.npy.*")]:
        left.unlink()  # of a process that was killed
    need, free = filling.n * filling.bytes_each, shutil.disk_usage(folder).free
    announce(f"{filling.size} go to {folder} ({free / 1e9:.3g} GB are free)")
    if need > free:
        raise OutputError(
            f"{filling.size} do not fit: the disk of {str(folder)!r} has {free / 1e9:.3g} left; make room, use fewer "
            f"images, or {filling.otherwise}"
        )
    shards: list[dict[str, str]] = []
    for number, arrays in enumerate(_shards(filling)):
        shards.append({name: f"{PREFIX}{name}-{number:05d}.npy" for name in arrays})
        for name, array in arrays.items():
            with writing(folder / shards[-1][name]) as file:
                np.save(file, array)
    with writing(folder / ABOUT) as file:
        file.write(json.dumps({**about, "shards": shards}, indent=2).encode())


def _shards(filling: Filling) -> Iterator[Row]:
    """Yield stacked rows, as many at a time as a file holds."""
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
