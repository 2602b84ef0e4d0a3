"""A teacher's states on disk in half precision: for a few images, many epochs and a large teacher.

Without a cache the teacher runs on every batch and nothing is stored. With one it runs once on every image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import LoadedImageSet
from raptor.core.flow import rollout, trajectory_size
from raptor.data.order import endless
from raptor.models.identity import identity_of
from raptor.models.teachers.teacher import Teacher
from raptor.runtime.array_cache import Filling, Row, Sharded, open_cache
from raptor.runtime.device import halved


class StatesCache:
    """States of the layers 0..L of all images of a dataset, as float16.

    Parameters
    ----------
    arrays
        Arrays on disk, with the single name `states`.
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
        """Yield the states of training batches without end, from a step on."""
        for indices in endless(len(self), first_step, batch_size, seed, part):
            yield torch.from_numpy(self.arrays.rows(indices)["states"].astype(np.float32))


def open_states(
    folder: Path, teacher: Teacher, images: LoadedImageSet, announce: Callable[[str], None] = print
) -> StatesCache:
    """Return the states in a folder; compute them first where it has none.

    Parameters
    ----------
    folder
        Created if it is missing; a cache of another teacher or of other images in it is an error.
    teacher, images
        The teacher, and the images that it runs on.
    announce
        Called with the size before anything is written.
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
