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


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears whole or not at all: a temporary one beside it, flushed to disk, then renamed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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
    try:
        made = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise OutputError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error
    try:
        yield made
        os.chmod(made, 0o777 & ~_umask())
        for file in made.iterdir():  # safetensors makes its files private
            os.chmod(file, 0o666 & ~_umask())
        if path.exists():
            shutil.rmtree(path)
        os.replace(made, path)
    except (OSError, SafetensorError) as error:
        raise OutputError(f"cannot write to {str(path)!r}: {one_line(error)}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; whatever is wrong with its content is a ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")  # a pipe would be waited for
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
