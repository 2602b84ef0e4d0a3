"""Whether layers of a phase can stand in for one another, and not only because they are near in depth.

The rule, fixed before any measurement. With the relative error of replacing a layer's update by that of another block
(0 if it can stand in, 1 for a block that does nothing), layers of the phases are interchangeable if both hold:

- within phases, the mean relative error is at most 0.5: a block of the same phase removes at least half of the error of
  doing nothing;
- the part of the update that a replacement saves, 1 - error and at least 0, is larger by at least 0.2 within phases
  than across phases at the same distance between layers, so that blocks that change smoothly along depth do not count.

The whole 95% interval over images must be on that side; if one of the two is wholly on the other side, layers are not
interchangeable; otherwise the result is inconclusive. The null: the same matrix with its values permuted among pairs of
the same distance, each with its own best partition; the contrast must also have p <= 0.05.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.phases.function.local import FunctionalSimilarity
from raptor.phases.segment import segment_values
from raptor.phases.similarity import ALL
from raptor.phases.solvers import best_boundaries, best_suffixes

LARGEST_ERROR = 0.5  # largest mean relative error within phases
SMALLEST_CONTRAST = 0.2  # smallest difference in what replacements within and across phases save
SIGNIFICANT = 0.05
PERMUTATIONS = 199


@dataclass(frozen=True)
class Interchangeable:
    """Whether layers of a phase can stand in for one another.

    Parameters
    ----------
    held
        True, false, or None if inconclusive.
    phases
        The phases that were tested: the best partition of the update cosine.
    within, across
        Mean update cosine of pairs of layers in the same phase and in different phases; None without such pairs.
    error
        Mean relative error of replacing a layer's update by that of another block of its phase; None if every phase
        has one layer.
    better_than_nothing
        Share of pairs within phases, and of all pairs, whose relative error is below 1.
    contrast
        What a replacement saves (1 - error, at least 0) within phases minus across phases, at the same distance; None
        for a single phase.
    null, p, smallest_p
        Mean contrast of the null, the share of its contrasts that are at least as large (the measured one counts), and
        the smallest value that share can have; None for a single phase.
    """

    held: bool | None
    phases: Phases
    within: Estimate[float] | None
    across: Estimate[float] | None
    error: Estimate[float] | None
    better_than_nothing: dict[str, float | None]
    contrast: Estimate[float] | None
    null: float | None
    p: float | None
    smallest_p: float | None


def is_interchangeable(
    function: FunctionalSimilarity,
    phases: Phases,
    group: str = ALL,
    objective: str = "weighted",
    min_length: int = 2,
    seed: int = 0,
) -> Interchangeable:
    """Test whether the layers of each phase can stand in for one another.

    Parameters
    ----------
    function
        What `functional_similarity` returned.
    phases
        The best partition of the update cosine into some number of phases.
    group
        Token group.
    objective, min_length
        How the partition was found; the null repeats it.
    seed
        Seed of the bootstrap over images and of the permutations.
    """
    cosines, errors = function.symmetric(group), function.errors[group]
    same = same_phase(phases)
    other = ~same & ~torch.eye(phases.depth, dtype=torch.bool)
    inside = same & ~torch.eye(phases.depth, dtype=torch.bool)
    weights = contrast_weights(phases)

    def estimate(values: Tensor, draws: Tensor, where: Tensor) -> Estimate[float] | None:
        weight = where.double()
        return _weighted(values, draws, weight / weight.sum(), function.n) if where.any() else None

    matrix, drawn = cosines.mean(), cosines.resample(seed=seed)
    error_mean, error_drawn = errors.mean(), errors.resample(seed=seed)
    error = estimate(error_mean, error_drawn, inside)
    contrast = null = p = smallest = None
    if weights is not None:
        contrast = _weighted(saved(error_mean), saved(error_drawn), weights, function.n)
        nulls = null_contrasts(saved(error_mean).numpy(), phases.k, objective, min_length, seed)
        null = float(nulls.mean())
        p = float((1 + np.sum(nulls >= contrast.value - 1e-12)) / (1 + len(nulls)))
        smallest = 1 / (1 + len(nulls))
    return Interchangeable(
        held=_verdict(error, contrast, p),
        phases=phases,
        within=estimate(matrix, drawn, inside),
        across=estimate(matrix, drawn, other),
        error=error,
        better_than_nothing={
            "within": float((error_mean[inside] < 1).double().mean()) if inside.any() else None,
            "all": float((error_mean[inside | other] < 1).double().mean()),
        },
        contrast=contrast,
        null=null,
        p=p,
        smallest_p=smallest,
    )


def _verdict(error: Estimate[float] | None, contrast: Estimate[float] | None, p: float | None) -> bool | None:
    """Apply the rule at the top of this module."""
    if error is None or error.n < 2:  # one image has no interval
        return None
    good = [error.high <= LARGEST_ERROR]
    bad = [error.low > LARGEST_ERROR]
    if contrast is not None and p is not None:
        good += [contrast.low >= SMALLEST_CONTRAST, p <= SIGNIFICANT]
        bad += [contrast.high < SMALLEST_CONTRAST]
    return True if all(good) else False if any(bad) else None


def saved(errors: Float[Tensor, "*draws layers layers"]) -> Float[Tensor, "*draws layers layers"]:
    """Return what replacements save over leaving the update out: 1 - error, at least 0, over both directions."""
    part = (1 - errors).clamp(min=0)
    return (part + part.mT) / 2


def same_phase(phases: Phases) -> Float[Tensor, "layers layers"] | Tensor:
    """Return which pairs of the layers 1..L are in the same phase."""
    of = torch.tensor([phases.block_of(layer) for layer in range(1, phases.depth + 1)])
    return of[:, None] == of[None, :]


def contrast_weights(phases: Phases) -> Float[Tensor, "layers layers"] | None:
    """Return weights of pairs that give the contrast within phases against across phases at the same distance.

    At each distance between layers with pairs of both kinds, the mean of the pairs within phases minus that of the
    pairs across phases; averaged over distances with the number of pairs within phases as weights. None if there is no
    such distance.
    """
    same = same_phase(phases)
    layer = torch.arange(phases.depth)
    distance = (layer[:, None] - layer[None, :]).abs()
    weights = torch.zeros(phases.depth, phases.depth, dtype=torch.float64)
    total = 0
    for apart in range(1, phases.depth):
        inside, outside = (distance == apart) & same, (distance == apart) & ~same
        pairs = int(inside.sum())
        if pairs and outside.any():
            weights[inside] = 1.0
            weights[outside] = -pairs / int(outside.sum())
            total += pairs
    return weights / total if total else None


def null_contrasts(
    matrix: Float[np.ndarray, "layers layers"], k: int, objective: str, min_length: int, seed: int = 0
) -> Float[np.ndarray, " draws"]:
    """Return contrasts of the best partitions of matrices without phases but with the same decay over distance.

    Parameters
    ----------
    matrix
        What replacements save, for each pair of layers.
    k, objective, min_length
        How matrices are partitioned.
    seed
        Seed of the permutations.
    """
    layers = len(matrix)
    draw = np.random.default_rng(seed)
    drawn = np.tile(matrix, (PERMUTATIONS, 1, 1))
    for apart in range(1, layers):
        rows = np.arange(layers - apart)
        values = np.tile(matrix[rows, rows + apart], (PERMUTATIONS, 1))
        values = draw.permuted(values, axis=1)
        drawn[:, rows, rows + apart] = drawn[:, rows + apart, rows] = values
    table = segment_values(drawn, objective, min_length)
    ends = best_boundaries(table, best_suffixes(table, k), k)
    found = []
    for values, end in zip(drawn, ends, strict=True):
        weights = contrast_weights(Phases.from_boundaries(end[:-1].tolist(), layers))
        found.append(0.0 if weights is None else float(np.sum(values * weights.numpy())))
    return np.array(found)


def _weighted(values: Tensor, draws: Tensor, weights: Tensor, n: int) -> Estimate[float]:
    return Estimate.from_draws((values * weights).sum(), (draws * weights).sum(dim=(1, 2)), n)
