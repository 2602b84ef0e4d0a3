"""A teacher's states kept on disk in half precision: for a few images, many epochs and a large teacher.

Without it the teacher runs on every batch and nothing is stored. With it, it runs on every image once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Float
from torch import Tensor

from raptor.data.order import endless
from raptor.errors import DataError, OutputError, ResumeError, one_line
from raptor.files import writing
from raptor.flow import rollout, trajectory_size
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint

ABOUT = "cache.json"  # written last: a cache that has it is whole
SHARD_BYTES = 2**30  # of a file, at most


class StatesCache:
    """States of the layers 0..L of all images of a set, as float16 in memory-mapped shards.

    Parameters
    ----------
    folder
        That `open_cache` filled.
    """

    def __init__(self, folder: Path):
        names = json.loads((folder / ABOUT).read_text())["shards"]
        self.shards = [np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in names]
        self.ends = np.cumsum([len(shard) for shard in self.shards])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the states of one image."""
        shard = int(np.searchsorted(self.ends, index, side="right"))
        return self.shards[shard][index - self.ends[shard]]

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Float[Tensor, "batch layers tokens width"]]:
        """Yield states of training batches without end, from a step on."""
        for indices in endless(len(self), first_step, batch_size, seed, part):
            yield torch.from_numpy(np.stack([self[index] for index in indices]).astype(np.float32))


def open_cache(folder: Path, teacher: Teacher, images: Any, announce: Callable[[str], None] = print) -> StatesCache:
    """Return the cache in a folder, filled before if it is not there yet.

    Of several processes with one folder the first fills it, and the others wait for it.

    Parameters
    ----------
    folder
        Made if it is missing; a cache of another teacher or of other images in it is an error.
    teacher, images
        Whose states, of what.
    announce
        Told the size before anything is written.
    """
    wanted = {
        "teacher": fingerprint(teacher.module),
        "image_size": list(teacher.image_size),
        "images": len(images),
        "set": hashlib.sha256(images.identity.encode()).hexdigest()[:16],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if not (folder / ABOUT).exists():
                _fill(folder, teacher, images, wanted, announce)
    except OSError as error:
        raise OutputError(f"the cache {str(folder)!r} cannot be written: {one_line(error)}") from error
    try:
        found = json.loads((folder / ABOUT).read_text())
        differing = next((key for key, value in wanted.items() if found.get(key) != value), None)
        cache = StatesCache(folder) if differing is None else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ResumeError(f"the cache {str(folder)!r} is damaged ({one_line(error)}); remove it") from error
    if cache is None:
        raise ResumeError(
            f"the cache {str(folder)!r} was made with {differing} = {found.get(differing)!r}, not "
            f"{wanted[str(differing)]!r}; use another directory"
        )
    return cache


def _fill(folder: Path, teacher: Teacher, images: Any, about: dict[str, Any], announce: Callable[[str], None]) -> None:
    """Run the teacher over all images once."""
    for left in [*folder.glob("states-*.npy"), *folder.glob(".states-*.npy.*")]:
        left.unlink()  # of a process that was killed
    one = np.dtype(np.float16).itemsize * trajectory_size(teacher)
    need, free = one * len(images), shutil.disk_usage(folder).free
    announce(f"{need / 1e9:.3g} GB of states of {len(images)} images go to {folder} ({free / 1e9:.3g} GB are free)")
    if need > free:
        raise OutputError(
            f"states of {len(images)} images take {need / 1e9:.3g} GB, and {str(folder)!r} has {free / 1e9:.3g}; "
            "use fewer images, or train without a cache: the teacher then runs on every batch"
        )
    names = []
    for number, states in enumerate(_shards(teacher, images, max(1, SHARD_BYTES // one))):
        names.append(f"states-{number:05d}.npy")
        with writing(folder / names[-1]) as file:
            np.save(file, states)
    with writing(folder / ABOUT) as file:
        file.write(json.dumps({**about, "shards": names}, indent=2).encode())


def _shards(teacher: Teacher, images: Any, rows: int) -> Iterator[np.ndarray]:
    """Yield states, `rows` images at a time."""
    pending: list[Tensor] = []
    for batch in images:
        pending += _halved(teacher, batch.pixels).unbind()
        while len(pending) >= rows:
            yield torch.stack(pending[:rows]).numpy()
            pending = pending[rows:]
    if pending:
        yield torch.stack(pending).numpy()


@torch.no_grad()
def _halved(teacher: Teacher, pixels: Tensor) -> Tensor:
    states = rollout(teacher, teacher.embed(pixels.to(teacher.device))).states
    half = states.half().cpu()
    if not torch.isfinite(half).all():
        raise DataError(
            f"states of this teacher reach {states.abs().max().item():.3g}, which half precision cannot hold; "
            "train without a cache"
        )
    return half
