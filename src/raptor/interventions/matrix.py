"""One layer changed: every layer replaced by every other, every pair interchanged, every layer skipped."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.placements import placements
from raptor.interventions.orders import interchange, replace, skip

MIN_LENGTH = 2  # of the phases that the given ones are ranked among
Matrix = list[list[float]]


@dataclass(frozen=True)
class Harm:
    """What changing one layer does to the output, by one measure; 0 where nothing is changed.

    Parameters
    ----------
    replace
        Rows: the layer 1..L that is replaced; columns: the layer that runs in its place.
    interchange
        The same for layers that change places; symmetric.
    skip
        One number per layer 1..L that is left out.
    """

    replace: Matrix
    interchange: Matrix
    skip: list[float]


@dataclass(frozen=True)
class PhaseContrast:
    """How much less harm a replacement within a phase does than one across phases.

    Pairs are compared after adjusting for the layer that is replaced and for the signed distance to the one that
    replaces it: a late layer that runs early does far more harm than an early one that runs late.

    Parameters
    ----------
    value
        Harm (1 - cosine of the last state) across phases minus within phases, with an interval over images.
    rank, of
        Place of these phases among all partitions with as many phases and the same minimum length, by the value (1 is
        the largest); and their number.
    smallest_p
        One over that number: what a permutation test could reach at best.
    """

    value: Estimate[float]
    rank: int
    of: int
    smallest_p: float


@dataclass(frozen=True)
class LayerMatrix:
    """Causal matrices of single layers.

    Parameters
    ----------
    state
        Harm as 1 - cosine of all tokens with those of the unchanged model at the last layer.
    logits
        Harm as the KL divergence from the unchanged model's predictions to those of the changed one, in nats; None
        without a classifier.
    accuracy
        Harm as the loss of accuracy; None without labels.
    worse_than_skipping
        By measure, the share of pairs for which replacing a layer does more harm than skipping it.
    contrast
        Replacements within phases compared with replacements across phases; None if the model has no such pairs.
    n
        Number of images.
    """

    state: Harm
    logits: Harm | None
    accuracy: Harm | None
    worse_than_skipping: dict[str, float]
    contrast: PhaseContrast | None
    n: int


def single_orders(depth: int) -> dict[tuple[str, int, int], tuple[int, ...]]:
    """Return the layer orders that change one layer, by experiment and the two layers 0..L-1 (skipped: the same)."""
    orders: dict[tuple[str, int, int], tuple[int, ...]] = {}
    for one, other in itertools.permutations(range(depth), 2):
        orders["replace", one, other] = tuple(replace(depth, [(one, other)]))
        if one < other:
            orders["interchange", one, other] = tuple(interchange(depth, [(one, other)]))
    for layer in range(depth):
        orders["skip", layer, layer] = tuple(skip(depth, [layer]))
    return orders


def layer_matrix(
    depth: int,
    means: dict[tuple[int, ...], BinnedMean],
    phases: Phases,
    classified: bool,
    labelled: bool,
    seed: int,
) -> LayerMatrix:
    """Summarise what changing one layer does.

    Parameters
    ----------
    depth
        Number of layers.
    means
        By layer order, running means over images of accuracy, cosine and KL divergence.
    phases
        The phases.
    classified, labelled
        Whether there is a classifier, and whether there are labels for it.
    seed
        Seed of the bootstrap over images.
    """
    orders = single_orders(depth)
    unchanged = means[tuple(range(depth))]
    own = unchanged.mean()
    values = {name: means[order].mean() for name, order in orders.items()}
    harms = {
        "state": Harm(*_tables(depth, {name: float(own[1] - value[1]) for name, value in values.items()})),
        "logits": Harm(*_tables(depth, {name: float(value[2]) for name, value in values.items()})),
        "accuracy": Harm(*_tables(depth, {name: float(own[0] - value[0]) for name, value in values.items()})),
    }
    kept = {"state": True, "logits": classified, "accuracy": labelled}
    worse = {
        name: float(np.mean([harm.replace[i][j] > harm.skip[i] for i, j in itertools.permutations(range(depth), 2)]))
        for name, harm in harms.items()
        if kept[name]
    }
    return LayerMatrix(
        state=harms["state"],
        logits=harms["logits"] if classified else None,
        accuracy=harms["accuracy"] if labelled else None,
        worse_than_skipping=worse,
        contrast=phase_contrast(
            {(i, j): means[order] for (kind, i, j), order in orders.items() if kind == "replace"}, phases, seed
        ),
        n=unchanged.n,
    )


def _tables(depth: int, values: dict[tuple[str, int, int], float]) -> tuple[Matrix, Matrix, list[float]]:
    tables = {kind: np.zeros((depth, depth)) for kind in ("replace", "interchange", "skip")}
    for (kind, one, other), value in values.items():
        tables[kind][one, other] = value
    both = tables["interchange"] + tables["interchange"].T
    return tables["replace"].tolist(), both.tolist(), np.diagonal(tables["skip"]).tolist()


def contrast_weights(pairs: list[tuple[int, int]], phases: Phases) -> Float[np.ndarray, " pairs"] | None:
    """Return weights that give the contrast from the harm of each pair; None if layer and distance determine it.

    The contrast is the least-squares coefficient of "across phases" beside one constant for each replaced layer and
    one for each signed distance. It is linear in the harms.

    Parameters
    ----------
    pairs
        The replaced layer and the one in its place, 0..L-1.
    phases
        The phases.
    """
    of = [phases.block_of(layer + 1) for layer in range(phases.depth)]
    across = np.array([float(of[one] != of[other]) for one, other in pairs])
    rows = [
        [float(one == layer) for layer in range(phases.depth)]
        + [float(other - one == distance) for distance in range(1 - phases.depth, phases.depth) if distance]
        for one, other in pairs
    ]
    others = np.array(rows)
    left = across - others @ np.linalg.lstsq(others, across, rcond=None)[0]
    size = left @ left
    return left / size if size > 1e-9 else None


def phase_contrast(means: dict[tuple[int, int], BinnedMean], phases: Phases, seed: int = 0) -> PhaseContrast | None:
    """Compare replacements within phases with those across phases; None if layer and distance determine which is which.

    Parameters
    ----------
    means
        By pair of layers, running means over images whose second number is the cosine of the last state.
    phases
        The phases.
    seed
        Seed of the bootstrap over images.
    """
    pairs = list(means)
    weights = contrast_weights(pairs, phases)
    if weights is None:
        return None
    cosines = torch.stack([mean.mean()[1] for mean in means.values()])
    drawn = torch.stack([mean.resample(seed=seed)[:, 1] for mean in means.values()], dim=1)
    value = _contrast(cosines, weights)
    least = min(MIN_LENGTH, *phases.lengths)
    others = [contrast_weights(pairs, Phases(one)) for one in placements(phases.depth, len(phases.lengths), least)]
    values = [float(_contrast(cosines, one)) for one in others if one is not None]
    rank = sum(one >= float(value) - 1e-12 for one in values)
    estimate = Estimate.from_draws(value, _contrast(drawn, weights), next(iter(means.values())).n)
    return PhaseContrast(estimate, rank, len(values), 1 / len(values))


def _contrast(cosines: Float[Tensor, "*draws pairs"], weights: Float[np.ndarray, " pairs"]) -> Float[Tensor, " *draws"]:
    return (1 - cosines) @ torch.from_numpy(weights)
