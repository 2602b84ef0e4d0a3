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
from raptor.data.order import endless, split_indices
from raptor.models.identity import identity_of
from raptor.models.teachers.teacher import Teacher
from raptor.runtime.array_cache import Filling, Row, Sharded, open_cache
from raptor.runtime.device import halved

TOGETHER = 8  # images whose states are read at a time


class StatesCache:
    """States of the layers 0..L of all images of a dataset, as float16.

    Parameters
    ----------
    arrays
        Arrays on disk, with the single name `states`.
    indices
        The images that this cache is of; None for all.
    """

    def __init__(self, arrays: Sharded, indices: np.ndarray | None = None):
        self.arrays = arrays
        self.indices = np.arange(len(arrays)) if indices is None else indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the states of one image."""
        return self.arrays.rows(self.indices[[index]])["states"][0]

    def _states(self, indices: list[int]) -> Float[Tensor, "batch layers tokens width"]:
        return torch.from_numpy(self.arrays.rows(self.indices[indices])["states"].astype(np.float32))

    def split_off(self, n: int) -> tuple[StatesCache, StatesCache]:
        """Return the states without those of n images, and those of these n."""
        rest, off = split_indices(len(self), n)
        return StatesCache(self.arrays, self.indices[rest]), StatesCache(self.arrays, self.indices[off])

    def sample(self, n: int) -> StatesCache:
        """Return the states of at most n images."""
        return StatesCache(self.arrays, self.indices[split_indices(len(self), min(n, len(self)))[1]])

    def __iter__(self) -> Iterator[Float[Tensor, "batch layers tokens width"]]:
        """Yield the states of a few images at a time."""
        for start in range(0, len(self), TOGETHER):
            yield self._states(list(range(start, min(start + TOGETHER, len(self)))))

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Float[Tensor, "batch layers tokens width"]]:
        """Yield the states of training batches without end, from a step on."""
        for indices in endless(len(self), first_step, batch_size, seed, part):
            yield self._states(indices)


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
