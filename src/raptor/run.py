"""A run: one command's directory, its lock and its envelope."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from raptor import __version__
from raptor.errors import OptionError, OutputError
from raptor.files import LOCK, explained, read_json, sweep, writing
from raptor.processes import is_first_process, team

SCHEMA = 1
TOGETHER = ("train", "distill", "phases", "dynamics", "probe")  # verbs that several processes may run
PACKAGES = ("raptor-vit", "torch", "transformers", "timm", "datasets", "numpy", "pillow", "altair")


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of what a result may depend on; None where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def plain(value: Any) -> Any:
    """Return JSON's own types, with null where a number is not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_json(value: Any) -> str:
    """Return JSON text that every reader accepts: no NaN, no Infinity, and escapes for what UTF-8 cannot hold."""
    text = json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()  # names of files may be any bytes


def read_result(folder: Path) -> dict[str, Any] | None:
    """Return the result that a run directory holds; None where there is none that can be read."""
    try:
        found = read_json(folder / "result.json")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def machine() -> str:
    """Return what this runs on, in a few words."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ", ".join([f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores", *gpus])


class Run:
    """What a command does around its work: time it, seal the result, keep it in a directory.

    Parameters
    ----------
    verb
        The command.
    config
        All that is needed to repeat it.
    out
        Directory to write to, or None for nowhere. One process holds it at a time by a lock of the operating
        system, which a killed process cannot leave behind; of several that work together, the first.
    seed
        The run's seed.
    """

    def __init__(self, verb: str, config: dict[str, Any], out: Path | None, seed: int):
        if team().n > 1 and verb not in TOGETHER:
            raise OptionError(f"{verb} runs in one process: start it without torchrun or accelerate launch")
        self.verb, self.config, self.seed = verb, config, seed
        self.out = out if is_first_process() else None
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
        """Write config.json, and take away the result of an earlier run: call it once the input is known to be good."""
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
        """Return what the device cannot promise; None where it repeats, or where the verb has none."""
        from raptor.device import resolve_device, varies

        return varies(resolve_device(self.config["device"])) if "device" in self.config else None

    def _refuse_foreign(self, out: Path) -> None:
        """Raise where a directory holds somebody's model or images, which a run would damage."""
        config = out / "config.json"
        written = config.read_text(errors="replace") if config.exists() else ""
        foreign = bool(written) and f'"verb": "{self.verb}"' not in written
        data = self.config.get("data") or ""
        inside = any(
            os.path.isdir(folder) and out.resolve().is_relative_to(Path(folder).resolve())
            for folder in (data, data.rpartition(":")[0])  # which may name a split
        )
        if foreign or inside:
            what = "holds a model or a run of another command" if foreign else "lies in the data"
            raise OutputError(f"{str(out)!r} {what}, which a run would damage: use another --out")

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
                    f"another run is writing to {str(self.out)!r}; wait for it or use another --out"
                ) from error

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file of the run directory for writing, atomically."""
        assert self.out is not None
        with self._explained():
            if (folder := (self.out / name).parent) != self.out:
                folder.mkdir(exist_ok=True)  # never the run's own: it was there, and whoever removed it meant it
            with writing(self.out / name) as file:
                yield file

    def save(self, name: str, value: Any) -> None:
        """Write a JSON file of the run directory; without a directory, do nothing."""
        if self.out is not None:
            with self.file(name) as file:
                file.write(to_json(value).encode() + b"\n")

    def finish(self, body: dict[str, Any], images: int, layers: int) -> dict[str, Any]:
        """Put the envelope around a result, save it as result.json and return it."""
        result = {
            "schema": SCHEMA,
            "verb": self.verb,
            "version": __version__,
            "seed": self.seed,
            "images": images,
            "layers": layers,
            "seconds": round(time.perf_counter() - self._started, 3),
            **{key: value for key, value in body.items() if key not in ("layers", "images")},
        }
        self.begin()
        self.save("result.json", result)
        return plain(result)
