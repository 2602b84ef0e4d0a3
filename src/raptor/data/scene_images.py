"""Scenes as a set of images like any other: rendered when they are asked for, nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import interpolate

from raptor.data import scene_atlas, scene_layout, scenes
from raptor.data.batch import Batch
from raptor.errors import DataError
from raptor.preprocessing import Preprocessing
from raptor.processes import ALONE, Team

DEFAULT_IMAGES = 10_000  # a split has no end, so that something must be said


class SceneImages:
    """Scenes of a split, one after the other.

    Parameters
    ----------
    preprocessing
        Size and normalisation that the teacher wants; scenes are resized to its crop, not cropped.
    split
        train, validation or test.
    n
        Number of scenes.
    batch_size
        Images a batch.
    first
        Number of the first of them.
    team
        As in `Images`.
    """

    classes = scene_atlas.CLASSES
    mask_classes = ("background", *scene_atlas.CLASSES)
    damaged: tuple[()] = ()

    def __init__(
        self,
        preprocessing: Preprocessing,
        split: str,
        n: int = DEFAULT_IMAGES,
        batch_size: int = 32,
        first: int = 0,
        team: Team = ALONE,
    ):
        self.preprocessing, self.split, self.n, self.batch_size = preprocessing, split, n, batch_size
        self.first, self.team = first, team

    def __len__(self) -> int:
        return self.n

    @property
    def n_mask_classes(self) -> int:
        """How many classes of pixels there are."""
        return len(self.mask_classes)

    @property
    def keys(self) -> set[str]:
        """What tells the images from those of other sets."""
        return {f"scenes:{self.split}/{index}" for index in range(self.first, self.first + self.n)}

    def some(self, n: int) -> SceneImages:
        """Return at most n of the images; they come in no order."""
        return self._part(0, min(n, self.n))

    def halves(self) -> tuple[SceneImages, SceneImages]:
        """Part the set in two halves."""
        if self.n < 2:
            raise DataError(f"{self.n} image is too few to fit on one and judge on another")
        middle = (self.n + 1) // 2
        return self._part(0, middle), self._part(middle, self.n - middle)

    def _part(self, start: int, n: int) -> SceneImages:
        return SceneImages(self.preprocessing, self.split, n, self.batch_size, self.first + start, self.team)

    def alone(self) -> SceneImages:
        """Return the same images, all of them for this process."""
        part = self._part(0, self.n)
        part.team = ALONE
        return part

    def in_batches(self, most: int) -> SceneImages:
        """Return the same images in batches that are no larger."""
        part = self._part(0, self.n)
        part.batch_size = min(self.batch_size, most)
        return part

    @property
    def identity(self) -> str:
        """What is in the set and how it is preprocessed."""
        return f"scenes:{self.split}, {self.n} from number {self.first} on, {self.preprocessing}"

    def __iter__(self) -> Iterator[Batch]:
        size = self.batch_size * self.team.n
        for start in range(0, self.n, size):
            own = self.team.own(range(start, min(start + size, self.n)))
            spare = replace(self.batch(np.array([self.first])), spare=True) if not own else None
            yield spare or self.batch(self.first + np.array(own))

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches without end, from a step on; scenes come in no order, so none is made.

        With `part` = (i, n) only the i-th of n equal parts of each batch: what one of n processes takes.
        """
        step = first_step
        while True:
            here = np.arange(step * batch_size, (step + 1) * batch_size)[part[0] :: part[1]]
            yield self.batch(self.first + here % self.n)
            step += 1

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
