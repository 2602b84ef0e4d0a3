"""A teacher's states kept on disk in half precision: for a few images, many epochs and a large teacher.

Without it the teacher runs on every batch and nothing is stored. With it, it runs on every image once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.data.order import endless
from raptor.device import halved
from raptor.flow import rollout, trajectory_size
from raptor.models.identity import identity_of
from raptor.models.teachers.teacher import Teacher
from raptor.sharded import Filling, Row, Sharded, open_cache


class StatesCache:
    """States of the layers 0..L of all images of a set, as float16.

    Parameters
    ----------
    arrays
        Of one name, `states`.
    """

    def __init__(self, arrays: Sharded):
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the states of one image."""
        return self.arrays.rows([index])["states"][0]

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Float[Tensor, "batch layers tokens width"]]:
        """Yield states of training batches without end, from a step on."""
        for indices in endless(len(self), first_step, batch_size, seed, part):
            yield torch.from_numpy(self.arrays.rows(indices)["states"].astype(np.float32))


def open_states(folder: Path, teacher: Teacher, images: Any, announce: Callable[[str], None] = print) -> StatesCache:
    """Return the states in a folder, computed before if they are not there yet.

    Parameters
    ----------
    folder
        Made if it is missing; a cache of another teacher or of other images in it is an error.
    teacher, images
        Whose states, of what.
    announce
        Told the size before anything is written.
    """

    def rows() -> Iterator[Row]:
        for batch in images:
            for states in _states(teacher, batch.pixels):
                yield {"states": states}

    size = np.dtype(np.float16).itemsize * trajectory_size(teacher)
    filling = Filling(rows, len(images), size, "states", "train without a cache: the teacher then runs on every batch")
    return StatesCache(open_cache(folder, identity_of(teacher, images), filling, announce))


@torch.no_grad()
def _states(teacher: Teacher, pixels: Tensor) -> np.ndarray:
    states = rollout(teacher, teacher.embed(pixels.to(teacher.device))).states
    return halved(states, "states of this teacher", "train without a cache").numpy()
