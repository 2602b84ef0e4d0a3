"""Atomic writes of files and folders."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from raptor.errors import OutputError, one_line
from raptor.runtime.faults import RETRY, chain, explain_failure

LOCK = ".lock"  # lock file of a folder that one process at a time may write to
UNFINISHED = ".unfinished"  # suffix of temporary files and folders


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a failed write into an `OutputError` that names the path, the reason and what to do.

    Parameters
    ----------
    path
        File or folder that is written to.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if isinstance(error, RuntimeError) and not any(isinstance(one, OSError) for one in chain(error)):
            raise  # torch wraps the OSError of a full disk; without one this is another kind of error
        why = explain_failure(error)
        if why is None and isinstance(error, FileNotFoundError):
            why = f"its directory does not exist, or was removed while the command ran; {RETRY}"
        if why is None:
            why = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        raise OutputError(f"cannot write to {str(path)!r}: {why}") from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file atomically: to a temporary file in the same folder, which is flushed to disk and renamed."""
    with explained(path):
        temporary = _temporary(path)
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a folder atomically; an existing folder of that name is replaced."""
    with explained(path):
        temporary = _temporary(path)
        temporary.mkdir()
        try:
            yield temporary
            readable = temporary.stat().st_mode & 0o666  # what the user's umask allows
            for file in temporary.iterdir():  # safetensors creates private files
                os.chmod(file, readable)
            discard(path)
            os.replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a folder, if it exists, so that no other process sees a part of it."""
    if folder.exists():
        with explained(folder):
            aside = _temporary(folder)
            os.replace(folder, aside)
            shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder and in its sub-folders.

    The caller holds the lock of the folder. Sub-folders with a lock of their own are skipped.
    """
    below = [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink() and not (one / LOCK).exists()]
    for place in (folder, *below):
        for left in place.glob(f".*{UNFINISHED}"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise a ValueError for content that is not valid JSON."""
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")  # reading a pipe would block
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _temporary(path: Path) -> Path:
    """Return a new name in the same folder, for a file or folder that is to be renamed."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
