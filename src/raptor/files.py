"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from raptor.errors import OutputError, one_line
from raptor.faults import AGAIN, chain, what_happened

LOCK = ".lock"  # of a folder that one process at a time may write to
UNFINISHED = ".unfinished"  # ending of what is being written, or was when its process was killed


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong with writing into one line: which file, why, and what to do."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if isinstance(error, RuntimeError) and not any(isinstance(one, OSError) for one in chain(error)):
            raise  # torch tells of a full disk by an error of its own, with the system's behind it; this has none
        why = what_happened(error)
        if why is None and isinstance(error, FileNotFoundError):
            why = f"its directory is not there, or was removed while the command ran: {AGAIN}"
        if why is None:
            why = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        raise OutputError(f"cannot write to {str(path)!r}: {why}") from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears whole or not at all: a temporary one beside it, flushed to disk, then renamed."""
    with explained(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes files private; a result is as readable as any other file of its owner.
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a folder that appears whole or not at all; one of that name is replaced."""
    with explained(path):
        made = _beside(path)
        try:
            yield made
            os.chmod(made, 0o777 & ~_umask())
            for file in made.iterdir():  # safetensors makes its files private
                os.chmod(file, 0o666 & ~_umask())
            discard(path)
            os.replace(made, path)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a folder that is there or not: it is gone at once, and nobody ever sees a part of it."""
    if folder.exists():
        with explained(folder):
            aside = _beside(folder)
            os.replace(folder, aside)
            shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed processes left unfinished in a folder that this process holds, and in the folders in it.

    Those with a lock of their own are left to who holds them.
    """
    below = [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink() and not (one / LOCK).exists()]
    for place in (folder, *below):
        for left in place.glob(f".*{UNFINISHED}"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; whatever is wrong with its content is a ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")  # a pipe would be waited for
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _beside(folder: Path) -> Path:
    """Make an empty folder beside another, to be renamed to it or replaced by it."""
    return Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=UNFINISHED))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
