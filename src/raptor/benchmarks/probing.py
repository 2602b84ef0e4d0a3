"""Probes: what more learning rates cost, and what kept features save."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from raptor.benchmarks.rollout import dinov2_small
from raptor.core.batches import Batch
from raptor.core.preprocessing import Preprocessing
from raptor.data.scenes.images import SceneImages
from raptor.probes.classify import Classify
from raptor.probes.features import CachedFeatures, Live, Source, filling
from raptor.probes.training import train_heads
from raptor.runtime.array_cache import in_memory
from raptor.runtime.timing import Ratio, compare
from raptor.training.config import TrainConfig

CLASSES, BATCH, IMAGES = 1000, 4, 16
EIGHT = [10.0**-power for power in range(8)]


class _Same(SceneImages):
    """The same few images under many numbers."""

    def __init__(self, pixels: Tensor):
        super().__init__(Preprocessing(), "train", IMAGES, BATCH)
        self.given = Batch(pixels, torch.arange(len(pixels)), None, None, [""] * len(pixels))

    def batch(self, indices: np.ndarray) -> Batch:
        """Return them."""
        return self.given


def _live() -> Live:
    _, teacher, pixels = dinov2_small()
    return Live(teacher, _Same(pixels))


def _epoch(source: Source, rates: list[float]) -> Callable[[], object]:
    """Return a pass over the images that trains classifiers of 1,000 classes."""
    task = Classify(torch.full((CLASSES,), 1 / CLASSES))
    start = task.head(next(iter(source)))
    recipe = TrainConfig(IMAGES // BATCH, BATCH, warmup=0)
    return lambda: train_heads(task, source, recipe, rates, start)


def eight_rates() -> Ratio:
    """An epoch through the backbone for eight learning rates against one."""
    live = _live()
    name = "an epoch of eight learning rates against one, through DINOv2-S"
    return compare(name, _epoch(live, EIGHT), _epoch(live, EIGHT[:1]), limit=1.3, rounds=7)


def kept_features() -> Ratio:
    """A classification epoch from kept features against one through the backbone."""
    live = _live()
    kept = CachedFeatures(
        in_memory(filling(live, {"cls", "mean", "label"}, next(iter(live)))), BATCH, torch.device("cpu")
    )
    name = "a classification epoch from kept features against one through DINOv2-S"
    return compare(name, _epoch(kept, EIGHT[:1]), _epoch(live, EIGHT[:1]), limit=1 / 20, rounds=7)
