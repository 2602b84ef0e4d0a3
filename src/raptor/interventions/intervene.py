"""Causal layer experiments: replace, interchange, skip or repeat layers, within phases and across phases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div

from raptor.core.accuracy import no_accuracy
from raptor.core.batches import ImageSource, as_image_set
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, ReorderedFlow, is_right, last_state, layers_of
from raptor.core.options import old_keywords
from raptor.core.phases import Phases, PhasesLike, as_phases
from raptor.core.serialize import Key, key
from raptor.interventions.matrix import LayerMatrix, layer_matrix, single_orders
from raptor.interventions.options import InterveneOptions
from raptor.interventions.orders import EXPERIMENTS, MatchedOrders
from raptor.render.notebook import HtmlRepr
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

NUMBERS = (1, 2, 3)  # layers, or pairs of layers, that are changed at once


@dataclass(frozen=True)
class Effect:
    """Mean over layer orders of one kind.

    Parameters
    ----------
    score
        Accuracy, if all images have labels and the model has a classifier for them; otherwise the cosine below.
    cosine
        Mean cosine of the last tokens with those of the unchanged model.
    orders
        Number of layer orders.
    """

    score: Annotated[Estimate[float], Key(name="mean", ci="ci")]
    cosine: Estimate[float]
    orders: int


@dataclass(frozen=True)
class Contrast:
    """Layer orders within phases against orders across phases.

    Parameters
    ----------
    intra, inter
        Effects within phases and across phases; None if there are no such orders.
    difference
        Score within phases minus score across phases, on the same images; None if one of them is missing.
    effect_size
        Cohen's d over orders: the difference divided by their pooled standard deviation; None for a single order.
    """

    intra: Effect | None
    inter: Effect | None
    difference: Estimate[float] | None
    effect_size: float | None


@dataclass(frozen=True)
class InterveneResult(HtmlRepr):
    """Causal layer experiments on a model.

    Parameters
    ----------
    phases
        The phases.
    measure
        What `Effect.score` is: `accuracy` or `cosine`.
    untouched
        Effect of the unchanged order.
    experiments
        By experiment (`replace`, `interchange`, `skip`, `repeat`) and number of changed layers.
    matrix
        What changing a single layer does, for all pairs of layers; None where it was left out.
    seed
        Seed of the draw of orders and of the bootstrap.
    """

    phases: Phases
    measure: str
    untouched: Effect
    experiments: Annotated[dict[str, dict[int, Contrast]], Key(inline=True)]
    matrix: LayerMatrix | None = None
    seed: int = key(0, skip=True)

    def __iter__(self) -> Iterator[dict[str, dict[int, Contrast]] | Effect]:
        """Unpack as experiments and the untouched effect; deprecated."""
        warnings.warn(
            "unpacking intervene(...) is deprecated: use .experiments, .untouched", FutureWarning, stacklevel=2
        )
        return iter((self.experiments, self.untouched))


def matched_orders(phases: Phases, most: int, seed: int = 0) -> dict[str, dict[int, MatchedOrders]]:
    """Return the layer orders of all registered experiments, by the number of changed layers.

    Parameters
    ----------
    phases
        The phases.
    most
        Maximum number of orders within phases and across phases, for experiments on pairs of layers.
    seed
        Seed of the draw.
    """
    return {name: {n: draw(phases, n, most, seed) for n in NUMBERS} for name, draw in EXPERIMENTS.items()}


@old_keywords(InterveneOptions)
@torch.no_grad()
def intervene(
    flow: DepthFlow,
    images: ImageSource,
    phases: PhasesLike,
    options: InterveneOptions | None = None,
    seed: int = 0,
    progress: ProgressLike = True,
) -> InterveneResult:
    """Run a model with its layers in other orders; the model is not changed.

    Every order starts from the model's own state before the first layer that it changes.

    Parameters
    ----------
    flow
        A teacher or a surrogate.
    images
        Images from `load_images`, or batches. Accuracy is measured if all have labels and the flow has a head for them.
    phases
        `"7-3-2"`, `Phases`, or what `find_phases` returned.
    options
        How many layer orders are drawn.
    seed
        Seed of the draw and of the bootstrap over images.
    progress
        As in `measure_dynamics`.
    """
    phases = as_phases(phases).check_depth(flow.depth)
    options = options or InterveneOptions()
    experiments = matched_orders(phases, options.most, seed)
    drawn = [matched for by_n in experiments.values() for matched in by_n.values()]
    orders = {order for matched in drawn for order in matched.intra + matched.inter}
    unchanged = tuple(range(flow.depth))
    means = {order: BinnedMean() for order in sorted(orders | {unchanged})}
    single = {order: BinnedMean() for order in sorted({*single_orders(flow.depth).values(), unchanged})}
    images, labelled, room = as_image_set(images), True, options.matrix_images
    for batch in as_image_set(tracked(images, "interventions", progress)):
        states = [states for _, states in layers_of(flow, flow.embed(batch.pixels))]
        labelled = labelled and no_accuracy(flow, batch, images.classes) is None  # of all batches, or of none
        label = batch.label if labelled else None
        _run(flow, states, label, means)
        if room > 0:
            _run(flow, [state[:room] for state in states], None if label is None else label[:room], single)
            room -= len(states[0])
    contrasts = {
        name: {n: _contrast(matched, means, labelled, seed) for n, matched in by_n.items()}
        for name, by_n in experiments.items()
    }
    untouched = _effect([means[unchanged]], labelled, seed)
    matrix = None
    if options.matrix_images:
        matrix = layer_matrix(flow.depth, single, phases, flow.head is not None, labelled, seed)
    return InterveneResult(phases, "accuracy" if labelled else "cosine", untouched, contrasts, matrix, seed)


def _run(flow: DepthFlow, states: list[Tensor], label: Tensor | None, means: dict[tuple[int, ...], BinnedMean]) -> None:
    """Run images through the layers in every order, from the model's own state before the first change."""
    for order, mean in means.items():
        reordered = ReorderedFlow(flow, order)
        start = min(reordered.unchanged, reordered.depth)
        mean.add(_measured(flow, last_state(reordered, states[start], start), states[-1], label))


def _measured(flow: DepthFlow, last: Tensor, truth: Tensor, label: Tensor | None) -> Float[Tensor, "batch 3"]:
    """Return for each image whether it is right (0 without labels), its tokens' mean cosine, and the KL divergence."""
    cosine = torch.cosine_similarity(last, truth, dim=-1).mean(dim=-1).cpu()
    if flow.head is None:
        return torch.stack([torch.zeros_like(cosine), cosine, torch.zeros_like(cosine)], dim=1)
    logits, wanted = flow.head(last), flow.head(truth)
    divergence = kl_div(logits.log_softmax(-1), wanted.log_softmax(-1), reduction="none", log_target=True).sum(-1)
    right = torch.zeros_like(cosine) if label is None else is_right(logits, label).to(cosine)
    return torch.stack([right, cosine, divergence.to(cosine)], dim=1)


def _draws(means: Sequence[BinnedMean], seed: int) -> Float[Tensor, "draws 3"]:
    # With one seed, a resample has the same images for every order.
    return torch.stack([mean.resample(seed=seed) for mean in means]).mean(dim=0)


def _effect(means: Sequence[BinnedMean], labelled: bool, seed: int) -> Effect:
    values, draws = torch.stack([mean.mean() for mean in means]).mean(dim=0), _draws(means, seed)
    accuracy, cosine = (Estimate.from_draws(values[i], draws[:, i], means[0].n) for i in range(2))
    return Effect(accuracy if labelled else cosine, cosine, len(means))


def _contrast(matched: MatchedOrders, means: dict[tuple[int, ...], BinnedMean], labelled: bool, seed: int) -> Contrast:
    intra, inter = ([means[order] for order in orders] for orders in (matched.intra, matched.inter))
    within, across = (_effect(some, labelled, seed) if some else None for some in (intra, inter))
    if within is None or across is None:
        return Contrast(within, across, None, None)
    column = 0 if labelled else 1
    draws = (_draws(intra, seed) - _draws(inter, seed))[:, column]
    values = [torch.stack([mean.mean()[column] for mean in some]) for some in (intra, inter)]
    difference = Estimate.from_draws(values[0].mean() - values[1].mean(), draws, intra[0].n)
    return Contrast(within, across, difference, _cohens_d(*values))


def _cohens_d(one: Tensor, other: Tensor) -> float | None:
    if min(len(one), len(other)) < 2:
        return None
    pooled = ((one.var() * (len(one) - 1) + other.var() * (len(other) - 1)) / (len(one) + len(other) - 2)).sqrt()
    return ((one.mean() - other.mean()) / pooled).item() if pooled > 0 else None
