"""Probes: what more learning rates cost, and what kept features save."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from raptor.benchmarks.ratio import Ratio, compare
from raptor.benchmarks.rollout import dinov2_small
from raptor.data.batch import Batch
from raptor.probes.classify import Classify
from raptor.probes.features import Kept, Live, Source, filling
from raptor.probes.training import train_heads
from raptor.sharded import in_memory
from raptor.training.recipe import Recipe

CLASSES, BATCH, IMAGES = 1000, 4, 16
EIGHT = [10.0**-power for power in range(8)]


class _Same:
    """The same few images under many numbers."""

    batch_size = BATCH

    def __init__(self, pixels: Tensor):
        self.given = Batch(pixels, torch.arange(len(pixels)), None, None, [""] * len(pixels))

    def __len__(self) -> int:
        return IMAGES

    def __iter__(self) -> Iterator[Batch]:
        return (self.given for _ in range(IMAGES // BATCH))

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int]) -> Iterator[Batch]:
        """Yield them without end."""
        while True:
            yield self.given


def _live() -> Live:
    _, teacher, pixels = dinov2_small()
    return Live(teacher, _Same(pixels))


def _epoch(source: Source, rates: list[float]) -> Callable[[], object]:
    """Return a pass over the images that trains classifiers of 1,000 classes."""
    task = Classify(torch.full((CLASSES,), 1 / CLASSES))
    start = task.head(next(iter(source)))
    recipe = Recipe(IMAGES // BATCH, BATCH, warmup=0)
    return lambda: train_heads(task, source, recipe, rates, start)


def eight_rates() -> Ratio:
    """An epoch through the backbone for eight learning rates against one."""
    live = _live()
    name = "an epoch of eight learning rates against one, through DINOv2-S"
    return compare(name, _epoch(live, EIGHT), _epoch(live, EIGHT[:1]), limit=1.3, rounds=7)


def kept_features() -> Ratio:
    """A classification epoch from kept features against one through the backbone."""
    live = _live()
    kept = Kept(in_memory(filling(live, {"cls", "mean", "label"}, next(iter(live)))), BATCH, torch.device("cpu"))
    name = "a classification epoch from kept features against one through DINOv2-S"
    return compare(name, _epoch(kept, EIGHT[:1]), _epoch(live, EIGHT[:1]), limit=1 / 20, rounds=7)
