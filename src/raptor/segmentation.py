"""Cutting depth into phases: the best contiguous partition of a layer-layer similarity matrix.

An objective gives each segment of layers a value, a partition is worth the sum over its segments, and every
solver knows an objective through that one table of values only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from raptor.errors import OptionError, PhaseError
from raptor.matrix import as_matrices
from raptor.phases import Phases
from raptor.solvers import DIGITS, SOLVERS, Ends, Solver, Values, ranked, total_value

NEAR = 0.005  # partitions whose score is this close to the best are listed
MOST_NEAR = 100  # how many of them at most
Matrices = Float[np.ndarray, "n layers layers"]
Scored = tuple[Phases, float]


@dataclass(frozen=True)
class Segmentation:
    """The best partition of one matrix into k phases, and how clear the choice is.

    Parameters
    ----------
    phases, score
        The partition that the solver found and its score (see `OBJECTIVES` for the scale).
    by_k
        The same for every smaller k, and for k itself.
    matrix, objective, min_length
        What was cut, and how.
    """

    phases: Phases
    score: float
    by_k: dict[int, Scored]
    matrix: NDArray[Any] = field(repr=False, compare=False)
    objective: str
    min_length: int

    @cached_property
    def _others(self) -> list[Scored]:
        """The best other partition, and what follows as long as it is close and may be listed; found when asked for."""
        values = segment_values(self.matrix[None], self.objective, self.min_length)[0]
        listed: list[Scored] = []
        for ends in ranked(values, self.phases.k):
            pair = _scored(values, ends, self.matrix, self.objective)
            if listed and (pair[1] < self.score - NEAR or len(listed) > MOST_NEAR):
                break
            if pair[0] != self.phases:
                listed.append(pair)
        return listed

    @property
    def runner_up(self) -> Scored | None:
        """The best partition beside this one, with its score; None where there is no other.

        A solver that is not exact may have missed a better one: this is it then, and the gap is negative.
        """
        return self._others[0] if self._others else None

    @property
    def gap(self) -> float | None:
        """How far the runner-up is behind."""
        return None if self.runner_up is None else round(self.score - self.runner_up[1], DIGITS)

    @property
    def near_optimal(self) -> tuple[Scored, ...]:
        """All partitions within 0.005 of this one or better, itself included, best first; at most 100 of them."""
        near = [(self.phases, self.score), *(pair for pair in self._others if pair[1] >= self.score - NEAR)]
        near.sort(key=lambda pair: (-round(pair[1], DIGITS), pair[0].boundaries))
        return tuple(near[:MOST_NEAR])

    @property
    def near_optimal_truncated(self) -> bool:
        """Whether there are more near-optimal partitions than are listed."""
        return len(self._others) >= MOST_NEAR and self._others[MOST_NEAR - 1][1] >= self.score - NEAR


@dataclass(frozen=True)
class Objective:
    """What a partition is worth: the sum of what its segments are worth.

    Parameters
    ----------
    value
        `value(sums, lengths)` of segments: the sum of all similarities inside, and the number of layers, as arrays.
    score
        `score(total, k, matrix)`: what is reported of k segments of a matrix whose values add up to `total`.
    """

    value: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    score: Callable[[float, int, NDArray[Any]], float]


def _between(total: float, k: int, matrix: NDArray[Any]) -> float:
    """Return the share of all distance 1 - S that lies between segments; 0 where there is no distance at all."""
    distance = float(np.sum(1 - matrix))
    return 1 + total / distance if distance > 0 else 0.0


OBJECTIVES: dict[str, Objective] = {
    # Mean over layers of a layer's mean similarity to its own phase; it gives the paper's cuts.
    "weighted": Objective(lambda sums, n: sums / n, lambda total, k, matrix: total / len(matrix)),
    # Mean over phases of the mean similarity inside, the formula as the paper prints it.
    "mean": Objective(lambda sums, n: sums / n**2, lambda total, k, matrix: total / k),
    # Contiguous maximum cut: minus the distance inside phases, scored as the share that lies between them.
    "cut": Objective(lambda sums, n: sums - n**2, _between),
}


def segment(similarity: Any, k: int, objective: str = "weighted", min_length: int = 2, solver: str = "dp") -> Any:
    """Cut the layers of a similarity matrix into k contiguous phases.

    Parameters
    ----------
    similarity
        Symmetric matrix (layers, layers), or a batch of them (n, layers, layers); any array. Rows are the
        layers 1..L: leave out layer 0, which is in no phase.
    k
        Number of phases; all smaller numbers are solved on the way.
    objective
        `weighted` (sum/n over segments of length n), `mean` (sum/n^2, as the paper prints it) or `cut`.
    min_length
        Least number of layers of a phase.
    solver
        `dp`, exact dynamic programming; `exhaustive`, all partitions; `recursive`, each phase in two again and
        again as the released code does, which is not exact.

    Returns
    -------
    Segmentation
        For one matrix; a list of them for a batch. Among equals the partition with the earliest boundaries wins.
    """
    solve = check_choices(objective, solver)
    matrices = as_matrices(similarity)
    check_possible(matrices.shape[1], k, min_length)
    found = []
    for matrix, values in zip(matrices, segment_values(matrices, objective, min_length), strict=True):
        by_k = {j: _scored(values, ends, matrix, objective) for j, ends in solve(values, k).items()}
        found.append(Segmentation(*by_k[k], by_k, matrix, objective, min_length))
    return found[0] if np.ndim(similarity) == 2 else found


def _scored(values: NDArray[Any], ends: Ends, matrix: NDArray[Any], objective: str) -> Scored:
    score = OBJECTIVES[objective].score(total_value(values, ends), len(ends), matrix)
    return Phases.from_boundaries(ends[:-1], ends[-1]), float(score)


def check_choices(objective: str, solver: str) -> Solver:
    """Return the solver of a name; names that are none are an error that lists those that are."""
    for what, name, table in (("objective", objective, OBJECTIVES), ("solver", solver, SOLVERS)):
        if name not in table:
            raise OptionError(f"{what} {name!r} is none of {', '.join(table)}")
    return SOLVERS[solver]


def check_possible(layers: int, k: int, min_length: int) -> None:
    """Raise unless `layers` layers can be cut into k phases of at least `min_length`."""
    if not all(isinstance(number, (int, np.integer)) for number in (k, min_length)):
        raise OptionError(f"k and min_length are whole numbers, not {k!r} and {min_length!r}")
    if k < 1 or min_length < 1:
        raise PhaseError(f"k and min_length are at least 1, not {k} and {min_length}")
    if k * min_length > layers:
        raise PhaseError(
            f"{layers} layers cannot be cut into {k} phases of at least {min_length} layers: k is at most "
            f"{layers // min_length}"
        )


def segment_values(matrices: Matrices, objective: str, min_length: int) -> Values:
    """Return the value of every segment i+1..j of every matrix, from prefix sums."""
    n, layers = matrices.shape[:2]
    prefix = np.zeros((n, layers + 1, layers + 1))
    np.cumsum(np.cumsum(matrices, axis=1), axis=2, out=prefix[:, 1:, 1:])
    corner = np.einsum("nii->ni", prefix)
    sums = corner[:, None, :] + corner[:, :, None] - prefix - prefix.transpose(0, 2, 1)
    lengths = np.subtract.outer(-np.arange(layers + 1), -np.arange(layers + 1)).astype(float)
    return np.where(lengths >= min_length, OBJECTIVES[objective].value(sums, np.maximum(lengths, 1)), -np.inf)
