"""A run: the directory of one command, its lock, and the record that becomes result.json."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Annotated, Any, Generic, TypeVar

from filelock import FileLock, Timeout

from raptor import __version__
from raptor.core.serialize import Key, key, to_json
from raptor.errors import OptionError, OutputError
from raptor.runtime.distributed import is_main_process, process_group
from raptor.runtime.files import LOCK, explained, read_json, sweep, writing

SCHEMA = 1
PACKAGES = ("raptor-vit", "torch", "transformers", "timm", "datasets", "numpy", "pillow", "altair")


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that affect results; None if one is not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def read_result_json(folder: Path) -> dict[str, Any] | None:
    """Return the JSON object in the result.json of a run directory; None if there is none or it cannot be read."""
    try:
        content = read_json(folder / "result.json")
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def machine() -> str:
    """Return a short description of the machine."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ", ".join([f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores", *gpus])


R = TypeVar("R")


@dataclass(frozen=True)
class Damage:
    """An image that was skipped."""

    path: str
    reason: str


@dataclass(frozen=True)
class Record(Generic[R]):
    """The content of `result.json`: the envelope, the result, and what it was measured on.

    Parameters
    ----------
    schema, verb, version, seed, images, layers, seconds
        The envelope, the same for every verb. `images` is the number of measured images, `layers` the depth of the
        model, `seconds` the run time.
    result
        The result dataclass of the verb.
    damaged
        Images that were skipped; None if the verb reads none.
    figures
        Paths of figures in the run directory; None if the verb draws none.
    about
        The inputs, by key: `model`, `data` and others.
    out
        The run directory, or None; not in result.json.
    """

    schema: int
    verb: str
    version: str
    seed: int
    images: int
    layers: int
    seconds: float
    result: Annotated[R, Key(inline=True)]
    damaged: list[Damage] | None = key(None, omit_none=True)
    figures: list[str] | None = key(None, omit_none=True)
    about: dict[str, Any] = key(None, inline=True)
    out: Path | None = key(None, skip=True)

    def to_json(self) -> str:
        """Return the text of `result.json`."""
        return to_json(self)


class Run:
    """A context manager around the work of a command: it locks the run directory, measures time and writes results.

    Parameters
    ----------
    verb
        Name of the command.
    config
        Everything that is needed to repeat it.
    out
        Run directory, or None to write nothing. Only one run at a time can use it: the main process holds a lock of the
        operating system, which is released when the process ends.
    seed
        Random seed of the run.
    distributed
        Whether several processes may run the command together, as torchrun and `accelerate launch` start them.
    """

    def __init__(self, verb: str, config: dict[str, Any], out: Path | None, seed: int, distributed: bool = False):
        if process_group().world_size > 1 and not distributed:
            raise OptionError(f"{verb} supports only one process; start it without torchrun or accelerate launch")
        self.verb, self.config, self.seed = verb, config, seed
        self.out = out if is_main_process() else None
        self._lock: FileLock | None = None
        self._started, self._begun = time.perf_counter(), False

    def __enter__(self) -> Run:
        if self.out is not None:
            with self._explained():
                self._refuse_foreign(self.out)
                self.out.mkdir(parents=True, exist_ok=True)
                self._lock = FileLock(self.out / LOCK)
                self._lock.acquire(timeout=0)
                sweep(self.out)
        return self

    def begin(self) -> None:
        """Write config.json and remove the result of an earlier run; call this when the inputs have been checked."""
        if self.out is not None and not self._begun:
            with self._explained():
                (self.out / "result.json").unlink(missing_ok=True)
            about = {
                "seed": self.seed,
                "command": sys.argv[1:],
                "versions": versions(),
                "machine": machine(),
                "determinism": self._determinism(),
            }
            self.save("config.json", {"verb": self.verb, **about, **self.config})
        self._begun = True

    def _determinism(self) -> str | None:
        """Return a note if results on the device are not bit-reproducible, else None."""
        from raptor.runtime.device import resolve_device, varies

        return varies(resolve_device(self.config["device"])) if "device" in self.config else None

    def _refuse_foreign(self, out: Path) -> None:
        """Raise an OutputError if a directory has a model, images or the run of another command."""
        config = out / "config.json"
        written = config.read_text(errors="replace") if config.exists() else ""
        foreign = bool(written) and f'"verb": "{self.verb}"' not in written
        data = self.config.get("data") or ""
        inside = any(
            os.path.isdir(folder) and out.resolve().is_relative_to(Path(folder).resolve())
            for folder in (data, data.rpartition(":")[0])  # DATA:SPLIT
        )
        if foreign or inside:
            what = "contains a model or the run of another command" if foreign else "is inside the data"
            raise OutputError(f"--out {str(out)!r} {what}, which would be overwritten; use another directory")

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        assert self.out is not None
        with explained(self.out):
            try:
                yield
            except Timeout as error:
                raise OutputError(
                    f"another run is writing to {str(self.out)!r}; wait for it, or use another --out"
                ) from error

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file in the run directory for an atomic write."""
        assert self.out is not None
        with self._explained():
            if (folder := (self.out / name).parent) != self.out:
                folder.mkdir(exist_ok=True)  # but never recreate the run directory itself
            with writing(self.out / name) as file:
                yield file

    def save(self, name: str, value: Any) -> None:
        """Write a value as a JSON file in the run directory; do nothing if there is no directory."""
        if self.out is not None:
            with self.file(name) as file:
                file.write(to_json(value).encode() + b"\n")

    def record(
        self,
        result: R,
        *,
        images: int,
        layers: int,
        about: Mapping[str, Any] | None = None,
        damaged: Iterable[Mapping[str, str]] | None = None,
        figures: Iterable[str] | None = None,
    ) -> Record[R]:
        """Wrap a result in a record, write it to result.json and return it.

        Parameters
        ----------
        result
            The result dataclass of the verb.
        images, layers, about, figures
            As in `Record`.
        damaged
            Skipped images, each with `path` and `reason`.
        """
        record = Record(
            schema=SCHEMA,
            verb=self.verb,
            version=__version__,
            seed=self.seed,
            images=images,
            layers=layers,
            seconds=round(time.perf_counter() - self._started, 3),
            result=result,
            damaged=None if damaged is None else [Damage(one["path"], one["reason"]) for one in damaged],
            figures=None if figures is None else list(figures),
            about=dict(about or {}),
            out=self.out,
        )
        self.begin()
        self.save("result.json", record)
        return record
