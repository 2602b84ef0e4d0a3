"""How often a surrogate is right with its teacher's classifier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from raptor.core.accuracy import head_and_label
from raptor.core.batches import Batch
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import Head, is_right, last_state, layers_of
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


@torch.no_grad()
def accuracies(surrogate: Surrogate, batches: Iterable[Batch], seed: int = 0) -> Accuracies:
    """Measure in one pass how often the teacher, the surrogate and every stitched flow are right.

    Parameters
    ----------
    surrogate
        With its teacher, which has a classifier.
    batches
        Labelled images.
    seed
        Seed of the bootstrap over images.
    """
    teacher = surrogate.teacher
    ends = [span[-1] for span in surrogate.phases.ranges]
    of_teacher, after = BinnedMean(), {end: BinnedMean() for end in ends}
    n_classes = 0
    for batch in batches:
        head, label = head_and_label(surrogate, batch)
        tokens = teacher.embed(batch.pixels)
        n_classes = _count(of_teacher, head, last_state(teacher, tokens), label)
        for layer, states in layers_of(surrogate, tokens):
            if layer in after:
                _count(after[layer], head, last_state(teacher, states, layer), label)
    return _summarised(of_teacher, after, 1 / n_classes, seed)


def _count(right: BinnedMean, head: Head, last: Tensor, label: Tensor) -> int:
    """Add which images are classified correctly; return the number of classes."""
    logits = head(last)
    right.add(is_right(logits, label))
    return logits.shape[1]


def _summarised(of_teacher: BinnedMean, after: dict[int, BinnedMean], chance: float, seed: int) -> Accuracies:
    n = of_teacher.n

    def drawn(mean: BinnedMean) -> tuple[Tensor, Tensor]:
        return mean.mean(), mean.resample(seed=seed)  # one seed draws the same images for all

    def ratio(minus: float) -> Estimate[float]:
        (part, parts), (whole, wholes) = drawn(after[max(after)]), drawn(of_teacher)
        return Estimate.from_draws(_over(part - minus, whole - minus), _over(parts - minus, wholes - minus), n)

    stitched = {end: StitchedAccuracy(Estimate.from_draws(*drawn(mean), n)) for end, mean in after.items()}
    return Accuracies(
        teacher=Estimate.from_draws(*drawn(of_teacher), n),
        surrogate=stitched[max(after)].top1,
        recovered=ratio(0.0),
        above_chance=ratio(chance),
        stitched=stitched,
    )


def _over(part: Tensor, whole: Tensor) -> Tensor:
    """Return the ratio; NaN where there is nothing to recover."""
    return torch.where(whole > 0, part / whole, torch.nan)
