"""How often a surrogate is right with its teacher's classifier."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from raptor.core.accuracy import head_and_label
from raptor.core.batches import Batch
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import Head, is_right, last_state
from raptor.models.surrogate import Surrogate


@dataclass(frozen=True)
class StitchedAccuracy:
    """Accuracy of a stitched flow: the surrogate up to a layer and the teacher after it.

    Parameters
    ----------
    top1
        Top-1 accuracy.
    """

    top1: Estimate[float]


@dataclass(frozen=True)
class Accuracies:
    """Top-1 accuracy of teacher, surrogate and stitched flows with the teacher's classifier.

    Parameters
    ----------
    teacher, surrogate
        Top-1 accuracy of either.
    recovered, above_chance
        Surrogate over teacher, and the same of what is above one over the number of classes; NaN where the teacher has
        nothing to recover. Intervals resample the same images for both.
    stitched
        By the last layer of each phase: the surrogate up to there and the teacher after it.
    """

    teacher: Estimate[float]
    surrogate: Estimate[float]
    recovered: Estimate[float]
    above_chance: Estimate[float]
    stitched: dict[int, StitchedAccuracy]


class AccuracyMeasure:
    """Counts how often the teacher, the surrogate and every stitched flow are right.

    Parameters
    ----------
    surrogate
        With its teacher, which has a classifier.
    """

    def __init__(self, surrogate: Surrogate):
        self.surrogate = surrogate
        self.of_teacher = BinnedMean()
        self.after = {span[-1]: BinnedMean() for span in surrogate.phases.ranges}
        self.n_classes = 0

    def update(self, batch: Batch | Tensor, layer: int, teacher: Tensor, surrogate: Tensor) -> None:
        """Add the states of a labelled batch at a layer; only the ends of phases matter."""
        if layer not in self.after:
            return
        assert isinstance(batch, Batch)  # a bare tensor has no labels
        head, label = head_and_label(self.surrogate, batch)
        self._count(self.after[layer], head, last_state(self.surrogate.teacher, surrogate, layer), label)
        if layer == self.surrogate.depth:
            self._count(self.of_teacher, head, teacher, label)

    def _count(self, right: BinnedMean, head: Head, last: Tensor, label: Tensor) -> None:
        logits = head(last)
        right.add(is_right(logits, label))
        self.n_classes = logits.shape[1]

    def compute(self, seed: int = 0) -> Accuracies:
        """Return the accuracies; the bootstrap draws the same images for all."""
        n, chance = self.of_teacher.n, 1 / self.n_classes

        def drawn(mean: BinnedMean) -> tuple[Tensor, Tensor]:
            return mean.mean(), mean.resample(seed=seed)

        def ratio(minus: float) -> Estimate[float]:
            (part, parts), (whole, wholes) = drawn(self.after[max(self.after)]), drawn(self.of_teacher)
            return Estimate.from_draws(_over(part - minus, whole - minus), _over(parts - minus, wholes - minus), n)

        stitched = {end: StitchedAccuracy(Estimate.from_draws(*drawn(mean), n)) for end, mean in self.after.items()}
        return Accuracies(
            teacher=Estimate.from_draws(*drawn(self.of_teacher), n),
            surrogate=stitched[max(stitched)].top1,
            recovered=ratio(0.0),
            above_chance=ratio(chance),
            stitched=stitched,
        )


def _over(part: Tensor, whole: Tensor) -> Tensor:
    """Return the ratio; NaN where there is nothing to recover."""
    return torch.where(whole > 0, part / whole, torch.nan)
