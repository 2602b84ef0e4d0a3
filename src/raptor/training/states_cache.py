"""A teacher's states kept on disk in half precision: for a few images, many epochs and a large teacher.

Without it the teacher runs on every batch and nothing is stored. With it, it runs on every image once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.data.order import endless
from raptor.errors import DataError, OutputError, ResumeError, one_line
from raptor.files import writing
from raptor.flow import rollout
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


def open_cache(
    folder: Path, teacher: Teacher, images: Any, announce: Callable[[str], None] = print, first: bool = True
) -> StatesCache:
    """Return the cache in a folder, filled before if it is not there yet.

    Parameters
    ----------
    folder
        Made if it is missing; a cache of another teacher or of other images in it is an error.
    teacher, images
        Whose states, of what.
    announce
        Told the size before anything is written.
    first
        Whether this process fills it; others wait.
    """
    wanted = _identity(teacher, images)
    while not first and not (folder / ABOUT).exists():
        time.sleep(1.0)
    if not (folder / ABOUT).exists():
        _fill(folder, teacher, images, wanted, announce)
    found = json.loads((folder / ABOUT).read_text())
    for key, value in wanted.items():
        if found.get(key) != value:
            raise ResumeError(
                f"the cache {str(folder)!r} was made with {key} = {found.get(key)!r}, not {value!r}; "
                "use another directory"
            )
    return StatesCache(folder)


def _identity(teacher: Teacher, images: Any) -> dict[str, Any]:
    """Return what a cache and its user must share; of the images their number and the first."""
    pixels = next(iter(images)).pixels[:1]
    return {
        "teacher": fingerprint(teacher.module),
        "image_size": list(teacher.image_size),
        "images": len(images),
        "first_image": hashlib.sha256(pixels.cpu().numpy().tobytes()).hexdigest()[:16],
    }


def _fill(folder: Path, teacher: Teacher, images: Any, about: dict[str, Any], announce: Callable[[str], None]) -> None:
    """Run the teacher over all images once."""
    one = 2 * (teacher.depth + 1) * teacher.layout.n_tokens * teacher.width
    need = one * len(images)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        announce(f"{need / 1e9:.3g} GB of states of {len(images)} images go to {folder} ({free / 1e9:.3g} GB are free)")
        if need > free:
            raise OutputError(
                f"states of {len(images)} images take {need / 1e9:.3g} GB, and {str(folder)!r} has {free / 1e9:.3g}; "
                "use fewer images, or train without a cache: the teacher then runs on every batch"
            )
        rows = max(1, SHARD_BYTES // one)
        names = []
        for number, states in enumerate(_shards(teacher, images, rows)):
            names.append(f"states-{number:05d}.npy")
            with writing(folder / names[-1]) as file:
                np.save(file, states)
        with writing(folder / ABOUT) as file:
            file.write(json.dumps({**about, "shards": names}, indent=2).encode())
    except OSError as error:
        raise OutputError(f"the cache {str(folder)!r} cannot be written: {one_line(error)}") from error


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
