"""Run directories after a fault: whether every file that is there is whole, and whether they hold the same numbers."""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from PIL import Image
from safetensors.torch import load_file

from raptor.runtime.files import UNFINISHED

# What two undisturbed runs differ in: how long things took.
TIMES = {"seconds", "train_seconds", "images_per_second", "runtime_ratio", "runtime_range", "skipped"}


def _pdf(path: Path) -> None:
    assert path.read_bytes().rstrip().endswith(b"%%EOF"), path


def _page(path: Path) -> None:
    assert path.read_text().rstrip().endswith("</html>"), path


def _array(path: Path) -> None:
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays:
            arrays[name]


# How a file of each kind is read whole; a truncated one fails.
READ = {
    ".json": lambda path: json.loads(path.read_text()),
    ".pt": lambda path: torch.load(path, weights_only=True),
    ".safetensors": load_file,
    ".npy": lambda path: np.load(path, allow_pickle=False),
    ".npz": _array,
    ".png": lambda path: Image.open(path).load(),
    ".svg": ElementTree.parse,
    ".pdf": _pdf,
    ".html": _page,
}


def files(folder: Path) -> list[Path]:
    """Return the files that claim to be something: hidden ones are locks, and what was being written."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def check_intact(folder: Path) -> int:
    """Read every file below a folder to its end; return how many there are."""
    found = files(folder)
    for path in found:
        if path.suffix in READ:
            READ[path.suffix](path)
    return len(found)


def check_free(folder: Path) -> None:
    """Take every lock below a folder, at once: nobody holds it."""
    for path in folder.rglob(".lock"):
        with FileLock(path, timeout=0):
            pass


def unfinished(folder: Path) -> list[Path]:
    """Return what was being written when a process was killed, and is still there."""
    return list(folder.rglob(f".*{UNFINISHED}"))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def outcome(folder: Path) -> dict[str, Any]:
    """Return what a run directory says but for times: results, jobs, weights, losses, and which files there are."""
    found: dict[str, Any] = {"files": [str(path.relative_to(folder)) for path in files(folder)]}
    for path in files(folder):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.suffix == ".jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".json" and not name.endswith((".vl.json", "config.json")):
            text = path.read_text().replace(str(folder), "OUT")
            found[name] = _timeless(json.loads(text))
    return found
