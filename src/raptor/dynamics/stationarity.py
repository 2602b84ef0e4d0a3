"""Test whether speed is steady within phases and changes between them, over all placements of the boundaries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from raptor.core.phases import Phases
from raptor.core.placements import placements

MOST = 100_000  # combinations of placements; where there are more, as many are drawn


@dataclass(frozen=True)
class Stationarity:
    """How much of the variance of speed over steps the phases explain.

    Parameters
    ----------
    explained
        Share of the variance of speed over steps that is not within phases; 1 if speed is constant in each.
    expected
        Mean share over all placements of as many phases with the same minimum length.
    upper
        95th percentile of that share over the placements.
    p
        Share of placements that explain at least as much; the tested one counts.
    smallest
        Smallest attainable p: one over the number of placements.
    guarded
        Whether the boundaries come from other tokens than those whose speed is tested. Otherwise the test is circular:
        boundaries lie where similarity between layers changes, which is where speed does.
    """

    explained: float
    expected: float
    upper: float
    p: float
    smallest: float
    guarded: bool


def between_phases(speed: Float[np.ndarray, "*draws steps"], phases: Phases) -> np.ndarray:
    """Return the share of the variance of speed that is not within phases; NaN where speed is constant.

    Parameters
    ----------
    speed
        Speed of the steps 0..L-1; step l goes from layer l to l + 1. A step is within a phase if both layers are. Steps
        between phases have a speed of their own; step 0 leaves the embedding and is left out.
    phases
        Phases of the layers 1..L; layers beyond the last step are left out.
    """
    last = speed.shape[-1]
    ends = [*(cut for cut in phases.boundaries if cut < last), last]
    within: np.ndarray | float = 0.0
    for start, end in itertools.pairwise([0, *ends]):
        inside = speed[..., start + 1 : end]
        if inside.shape[-1]:
            within = within + inside.var(axis=-1) * inside.shape[-1]
    total = speed[..., 1:].var(axis=-1) * (last - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - within / np.where(total > 1e-24 * last, total, np.nan))


def stationarity_test(
    speeds: Mapping[str, Sequence[float] | np.ndarray], cuts: Mapping[str, Phases], guarded: bool, min_length: int = 2
) -> Stationarity | None:
    """Test the speed of some token groups together, each at its own boundaries; exact up to 100,000 placements.

    Return None where there is one phase, or speed is constant.

    Parameters
    ----------
    speeds
        By token group, the mean speed at the steps 0..L-1.
    cuts
        By token group, the phases whose boundaries are tested.
    guarded
        As in `Stationarity`.
    min_length
        Minimum number of layers in a phase of other placements.
    """
    groups = [group for group in cuts if len(cuts[group].lengths) > 1]
    tables = {}
    for group in groups:
        speed, own = np.array(speeds[group]), cuts[group]
        least = min(min_length, *own.lengths)
        others = [Phases(lengths) for lengths in placements(own.depth, len(own.lengths), least)]
        values = np.array([between_phases(speed, own), *(between_phases(speed, one) for one in others)])
        if np.isnan(values).any():
            return None
        tables[group] = values
    if not groups:
        return None
    same = len({cuts[group] for group in groups}) == 1 and len(groups) > 1
    own_value = float(np.mean([values[0] for values in tables.values()]))
    # Groups that share their boundaries are moved together, others independently.
    columns = np.array([values[1:] for values in tables.values()], dtype=float) if same else None
    found = columns.mean(axis=0) if columns is not None else _sums([v[1:] for v in tables.values()]) / len(groups)
    at_least = int((found >= own_value - 1e-12).sum())
    exact = math.prod(len(values) - 1 for values in tables.values()) <= MOST or same
    count = len(found) if exact else len(found) + 1
    upper = float(np.quantile(found, 0.95))
    return Stationarity(own_value, float(found.mean()), upper, (at_least + (not exact)) / count, 1 / count, guarded)


def _sums(tables: list[np.ndarray]) -> np.ndarray:
    """Return the sums over all combinations of one entry of each table; where there are too many, of random ones."""
    if math.prod(map(len, tables)) <= MOST:
        total = np.zeros(1)
        for table in tables:
            total = (total[:, None] + table[None]).ravel()
        return total
    draw = np.random.default_rng(0)
    return sum((table[draw.integers(len(table), size=MOST - 1)] for table in tables), np.zeros(MOST - 1))
