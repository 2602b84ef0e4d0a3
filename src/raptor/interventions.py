"""Causal layer experiments: what it does to a model when layers are replaced, interchanged, skipped or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.accuracy import no_accuracy
from raptor.flow import DepthFlow, is_right, last_state, layers_of, pixels_of
from raptor.phases import Phases
from raptor.resampling import BinnedMean, percentile_interval
from raptor.rewiring import Choice, Rewired, interchange, paired, repeat, replace, runs, skip

NUMBERS = (1, 2, 3)  # layers that are changed at once
MOST = 8  # orders of either kind that are drawn


@dataclass(frozen=True)
class Effect:
    """What orders of one kind do on average.

    Parameters
    ----------
    mean, ci
        Of accuracy where there are labels and a classifier, else of the cosine with the last state of the model itself.
    cosine, cosine_ci
        Of the latter in any case.
    orders
        How many there were.
    """

    mean: float
    ci: tuple[float, float]
    cosine: float
    cosine_ci: tuple[float, float]
    orders: int


@dataclass(frozen=True)
class Contrast:
    """Orders within phases against orders across them.

    Parameters
    ----------
    intra, inter
        None where there are no such orders.
    difference, difference_ci
        Intra minus inter, of the same images; None where one is missing.
    effect_size
        Cohen's d of the orders: the difference over their pooled spread; None where there are too few.
    """

    intra: Effect | None
    inter: Effect | None
    difference: float | None
    difference_ci: tuple[float, float] | None
    effect_size: float | None


def choices(phases: Phases, most: int = MOST, seed: int = 0) -> dict[str, dict[int, Choice]]:
    """Return the orders of all experiments."""
    return {
        "replace": {n: paired(replace, phases, n, most, seed) for n in NUMBERS},
        "interchange": {n: paired(interchange, phases, n, most, seed) for n in NUMBERS},
        "skip": {n: runs(skip, phases, n) for n in NUMBERS},
        "repeat": {n: runs(repeat, phases, n) for n in NUMBERS},
    }


@torch.no_grad()
def intervene(
    flow: DepthFlow, images: Iterable[Any], phases: Phases, most: int = MOST, seed: int = 0
) -> tuple[dict[str, dict[int, Contrast]], Effect]:
    """Run a flow with its layers in other orders; it is left as it is.

    Every order starts from the flow's own state before the first layer that it changes.

    Parameters
    ----------
    flow
        Teacher or surrogate.
    images
        With labels on all, accuracy is measured too, where the flow has a head for their classes.
    phases
        Which layers belong together.
    most
        Orders of either kind that are drawn, of those that change pairs.
    seed
        Of that draw and of the bootstrap over images.

    Returns
    -------
    dict
        By experiment and number of layers.
    Effect
        Of the flow as it is.
    """
    phases.check_depth(flow.depth)
    experiments = choices(phases, most, seed)
    drawn = [choice for by_n in experiments.values() for choice in by_n.values()]
    orders = {order for choice in drawn for order in choice.intra + choice.inter}
    own = tuple(range(flow.depth))
    means = {order: BinnedMean() for order in sorted(orders | {own})}
    labelled, classes = True, getattr(images, "classes", None)
    for batch in images:
        (pixels,) = pixels_of([batch])
        states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        labelled = labelled and no_accuracy(flow, batch, classes) is None  # of all batches, or of none
        for order, mean in means.items():
            rewired = Rewired(flow, order)
            start = min(rewired.unchanged, rewired.depth)
            last = last_state(rewired, states[start], start)
            mean.add(_measured(flow, last, states[-1], batch.label if labelled else None))
    contrasts = {
        name: {n: _contrast(choice, means, labelled, seed) for n, choice in by_n.items()}
        for name, by_n in experiments.items()
    }
    return contrasts, _effect([means[own]], labelled, seed)


def _measured(flow: DepthFlow, last: Tensor, truth: Tensor, label: Tensor | None) -> Float[Tensor, "batch 2"]:
    """Return, of each image, whether it is classified rightly (0 without labels), and the mean cosine of its tokens."""
    cosine = torch.cosine_similarity(last, truth, dim=-1).mean(dim=-1).cpu()
    if label is None or flow.head is None:
        return torch.stack([torch.zeros_like(cosine), cosine], dim=1)
    return torch.stack([is_right(flow.head(last), label).to(cosine), cosine], dim=1)


def _draws(means: Sequence[BinnedMean], seed: int) -> Float[Tensor, "draws 2"]:
    # One seed for all: a resample has the same images whatever the order.
    return torch.stack([mean.resample(seed=seed) for mean in means]).mean(dim=0)


def _effect(means: Sequence[BinnedMean], labelled: bool, seed: int) -> Effect:
    accuracy, cosine = torch.stack([mean.mean() for mean in means]).mean(dim=0).tolist()
    low, high = percentile_interval(_draws(means, seed))
    ends = [(low[i].item(), high[i].item()) for i in range(2)]
    first = (accuracy, ends[0]) if labelled else (cosine, ends[1])
    return Effect(*first, cosine, ends[1], len(means))


def _contrast(choice: Choice, means: dict[tuple[int, ...], BinnedMean], labelled: bool, seed: int) -> Contrast:
    intra, inter = ([means[order] for order in orders] for orders in (choice.intra, choice.inter))
    within, across = (_effect(some, labelled, seed) if some else None for some in (intra, inter))
    if within is None or across is None:
        return Contrast(within, across, None, None, None)
    column = 0 if labelled else 1
    drawn = (_draws(intra, seed) - _draws(inter, seed))[:, column]
    low, high = percentile_interval(drawn)
    values = [torch.stack([mean.mean()[column] for mean in some]) for some in (intra, inter)]
    difference = (values[0].mean() - values[1].mean()).item()
    return Contrast(within, across, difference, (low.item(), high.item()), _cohens_d(*values))


def _cohens_d(one: Tensor, other: Tensor) -> float | None:
    if min(len(one), len(other)) < 2:
        return None
    pooled = ((one.var() * (len(one) - 1) + other.var() * (len(other) - 1)) / (len(one) + len(other) - 2)).sqrt()
    return ((one.mean() - other.mean()) / pooled).item() if pooled > 0 else None
