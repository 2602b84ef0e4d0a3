"""Objectives: what a partition of layers into phases is worth.

An objective gives each segment of layers a value. A partition is worth the sum over its segments, and solvers see only
the table of these values. To add an objective, register one function:

    @objective("others", "mean similarity to the other layers of the phase", score=lambda total, k, matrix: ...)
    def others(sums, lengths): ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raptor.errors import OptionError

Array = Any  # of NumPy, which is not imported here: the help of the command line lists the objectives

Value = Callable[[Array, Array], Array]
Score = Callable[[float, int, Array], float]


@dataclass(frozen=True)
class Objective:
    """What a partition is worth: the sum of the values of its segments.

    Parameters
    ----------
    value
        `value(sums, lengths)` of segments, as arrays: the sum of all similarities inside a segment, and its number of
        layers.
    score
        `score(total, k, matrix)`: the number that is reported for k segments of `matrix` with the value `total`.
    summary
        What the score is, in a few words for the help.
    """

    value: Value
    score: Score
    summary: str = ""


OBJECTIVES: dict[str, Objective] = {}


def objective(name: str, summary: str, score: Score) -> Callable[[Value], Value]:
    """Register a function of segments as an objective.

    Parameters
    ----------
    name
        How `--objective` and `PhasesOptions` call it.
    summary, score
        As in `Objective`.
    """

    def register(value: Value) -> Value:
        OBJECTIVES[name] = Objective(value, score, summary)
        return value

    return register


def find_objective(name: str) -> Objective:
    """Return the objective of a name."""
    if name not in OBJECTIVES:
        raise OptionError(f"objective {name!r} is none of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def _mean_over_layers(total: float, k: int, matrix: Array) -> float:
    return float(total / len(matrix))


def _mean_over_phases(total: float, k: int, matrix: Array) -> float:
    return total / k


def _share_between(total: float, k: int, matrix: Array) -> float:
    """Return the share of all distance 1 - S that lies between segments; 0 where there is no distance at all."""
    distance = float((1 - matrix).sum())
    return 1 + total / distance if distance > 0 else 0.0


@objective(
    "weighted",
    "mean similarity inside phases, weighted by their numbers of layers",
    _mean_over_layers,
)
def weighted(sums: Array, lengths: Array) -> Array:
    """Return the similarities of a layer to its own segment, on average, times the number of layers."""
    return sums / lengths


@objective(
    "mean",
    "the same without weights, which is the formula that the paper prints",
    _mean_over_phases,
)
def mean(sums: Array, lengths: Array) -> Array:
    """Return the mean similarity inside a segment."""
    return sums / lengths**2


@objective("cut", "share of the total distance, 1 - similarity, that lies between phases", _share_between)
def cut(sums: Array, lengths: Array) -> Array:
    """Return minus the distance inside a segment."""
    return sums - lengths**2
