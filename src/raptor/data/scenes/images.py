"""Scenes as a set of images, rendered on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import interpolate

from raptor.core.batches import Batch
from raptor.core.preprocessing import Preprocessing
from raptor.data.order import endless
from raptor.data.scenes import atlas as scene_atlas
from raptor.data.scenes import draw as scenes
from raptor.data.scenes import layout as scene_layout
from raptor.errors import DataError
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup

DEFAULT_IMAGES = 10_000  # a split is unlimited


class SceneImages:
    """Consecutive scenes of a split.

    Parameters
    ----------
    preprocessing
        Image size and normalisation of the model; scenes are resized to its crop size, not cropped.
    split
        train, validation or test.
    n
        Number of scenes.
    batch_size
        Images per batch and process.
    first
        Index of the first scene.
    process_group
        As in `Images`.
    """

    classes: tuple[str, ...] = scene_atlas.CLASSES
    mask_classes: tuple[str, ...] = ("background", *scene_atlas.CLASSES)
    damaged: tuple[()] = ()

    def __init__(
        self,
        preprocessing: Preprocessing,
        split: str,
        n: int = DEFAULT_IMAGES,
        batch_size: int = 32,
        first: int = 0,
        process_group: ProcessGroup = SINGLE_PROCESS,
    ):
        self.preprocessing, self.split, self.n, self.batch_size = preprocessing, split, n, batch_size
        self.first, self.process_group = first, process_group

    def __len__(self) -> int:
        return self.n

    @property
    def n_mask_classes(self) -> int:
        """Number of mask classes."""
        return len(self.mask_classes)

    def image_keys(self) -> set[str]:
        """Return a unique key for each image."""
        return {f"scenes:{self.split}/{index}" for index in range(self.first, self.first + self.n)}

    def sample(self, n: int) -> SceneImages:
        """Return the first n of the images; their order is random."""
        return self._part(0, min(n, self.n))

    def fit_eval_split(self) -> tuple[SceneImages, SceneImages]:
        """Split the set into two halves."""
        if self.n < 2:
            raise DataError(f"{self.n} images cannot be split into a fit and an evaluation half; use at least 2")
        middle = (self.n + 1) // 2
        return self._part(0, middle), self._part(middle, self.n - middle)

    def split_off(self, n: int) -> tuple[SceneImages, SceneImages]:
        """Return the images, and n more: scenes are generated, so nothing has to be taken from them."""
        return self, self._part(self.n, n)

    def _part(self, start: int, n: int) -> SceneImages:
        return SceneImages(self.preprocessing, self.split, n, self.batch_size, self.first + start, self.process_group)

    def unsharded(self) -> SceneImages:
        """Return the same images without sharding: all of them in this process."""
        part = self._part(0, self.n)
        part.process_group = SINGLE_PROCESS
        return part

    def with_batch_size(self, most: int) -> SceneImages:
        """Return the same images in batches of at most `most`."""
        part = self._part(0, self.n)
        part.batch_size = min(self.batch_size, most)
        return part

    def identity(self) -> str:
        """Return a text that identifies the images and their preprocessing; it is part of cache keys."""
        return f"scenes:{self.split}, {self.n} from number {self.first} on, {self.preprocessing}"

    def __iter__(self) -> Iterator[Batch]:
        size = self.batch_size * self.process_group.world_size
        for start in range(0, self.n, size):
            own = self.process_group.shard(range(start, min(start + size, self.n)))
            spare = replace(self.batch(np.array([self.first])), spare=True) if not own else None
            yield spare or self.batch(self.first + np.array(own))

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches indefinitely, starting at a step; scenes are random, so they are not shuffled.

        Parameters
        ----------
        first_step, batch_size, seed, part
            As in `LoadedImageSet.shuffled`.
        """
        step = first_step
        while True:
            here = np.arange(step * batch_size, (step + 1) * batch_size)[part[0] :: part[1]]
            yield self.batch(self.first + here % self.n)
            step += 1

    def shuffled_epochs(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """Yield training batches indefinitely, starting at a step, in a new order in each epoch."""
        steps = endless(len(self), first_step, batch_size, seed, part)
        return (self.batch(self.first + np.array(indices)) for indices in steps)

    def batch(self, indices: np.ndarray) -> Batch:
        """Return the scenes with these indices."""
        rendered = scenes.render(indices, self.split)
        pixels = torch.from_numpy(rendered.pixels).float() / 255
        mask, depth = torch.from_numpy(rendered.mask), torch.from_numpy(rendered.depth)
        if (size := self.preprocessing.crop) != (scene_layout.SIZE, scene_layout.SIZE):
            pixels = interpolate(pixels, size, mode="bilinear", antialias=True)
            mask = interpolate(mask[:, None], size, mode="nearest")[:, 0]
            depth = interpolate(depth[:, None], size, mode="nearest")[:, 0]
        return Batch(
            pixels=self.preprocessing.normalize(pixels),
            label=torch.from_numpy(rendered.label),
            mask=mask.long(),
            depth=depth,
            path=[f"scenes:{self.split}/{index}" for index in indices],
        )
