"""Cutting depth into phases: the best contiguous partition of a layer-layer similarity matrix.

An objective gives each segment of layers a value, a partition is worth the sum over its segments, and every
solver knows an objective through that one table of values only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from raptor.errors import MatrixError, OptionError, PhaseError
from raptor.phases import Phases
from raptor.solvers import SOLVERS, Ends, Values

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
        The best partition and its score (see `OBJECTIVES` for the scale).
    by_k
        The best partition and score for every smaller k, and for k itself.
    """

    phases: Phases
    score: float
    by_k: dict[int, Scored]
    _ranked: Iterator[Scored] = field(repr=False, compare=False)

    @cached_property
    def _listed(self) -> list[Scored]:
        """The best, the second, and what follows as long as it is close and may be listed; found when asked for."""
        listed: list[Scored] = []
        for pair in self._ranked:
            if len(listed) >= MOST_NEAR or (len(listed) >= 2 and pair[1] < self.score - NEAR):
                break
            listed.append(pair)
        return listed

    @property
    def runner_up(self) -> Scored | None:
        """The second best partition with its score; None where there is only one.

        By a solver that is not exact it may be better than the partition that was found.
        """
        return self._listed[1] if len(self._listed) > 1 else None

    @property
    def gap(self) -> float | None:
        """How far the runner-up is behind."""
        return None if self.runner_up is None else self.score - self.runner_up[1]

    @property
    def near_optimal(self) -> tuple[Scored, ...]:
        """All partitions within 0.005 of the best, itself included, best first; at most 100 of them."""
        near = [pair for pair in self._listed if pair[1] >= self.score - NEAR]
        return tuple(sorted(near, key=lambda pair: -pair[1]))


@dataclass(frozen=True)
class _Objective:
    """`value(sums, lengths)` of a segment, and the score of k segments whose values add up to `total`."""

    value: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    score: Callable[[Any, int, Matrices], Any]


def _between(total: Any, k: int, matrices: Matrices) -> Any:
    """Return the share of all distance 1 - S that lies between segments; 0 where there is no distance at all."""
    distance = np.sum(1 - matrices, axis=(1, 2))
    return np.where(distance > 0, 1 + total / np.where(distance > 0, distance, 1), 0.0)


OBJECTIVES: dict[str, _Objective] = {
    # Mean over layers of a layer's mean similarity to its own phase; it gives the paper's cuts.
    "weighted": _Objective(lambda sums, n: sums / n, lambda total, k, matrices: total / matrices.shape[1]),
    # Mean over phases of the mean similarity inside, the formula as the paper prints it.
    "mean": _Objective(lambda sums, n: sums / n**2, lambda total, k, matrices: total / k),
    # Contiguous maximum cut: minus the distance inside phases, scored as the share that lies between them.
    "cut": _Objective(lambda sums, n: sums - n**2, _between),
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
    matrices, single = _checked(similarity)
    chosen = _row(OBJECTIVES, "objective", objective)
    solve = _row(SOLVERS, "solver", solver)
    check_possible(matrices.shape[1], k, min_length)
    values = segment_values(matrices, objective, min_length)
    found = []
    for index in range(len(matrices)):
        ranked, by_k = solve(values[index], k)

        def scored(total: float, ends: Ends, matrix: Matrices = matrices[index : index + 1]) -> Scored:
            phases = Phases.from_boundaries(ends[:-1], ends[-1])
            return phases, float(np.squeeze(chosen.score(total, len(ends), matrix)))

        best = {j: scored(*pair) for j, pair in by_k.items()}
        found.append(Segmentation(*best[k], best, (scored(*pair) for pair in ranked)))
    return found[0] if single else found


def check_possible(layers: int, k: int, min_length: int) -> None:
    """Raise unless `layers` layers can be cut into k phases of at least `min_length`."""
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


def _row(table: dict[str, Any], what: str, name: str) -> Any:
    if name not in table:
        raise OptionError(f"{what} {name!r} is none of {', '.join(table)}")
    return table[name]


def _checked(similarity: Any) -> tuple[Matrices, bool]:
    """Return a batch of matrices and whether one alone was given."""
    matrices = np.asarray(similarity, dtype=float)
    single = matrices.ndim == 2
    matrices = matrices[None] if single else matrices
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.size == 0:
        raise MatrixError(f"a similarity matrix is square, layers x layers, not of shape {np.shape(similarity)}")
    if not np.isfinite(matrices).all():
        raise MatrixError("a similarity matrix has numbers only, but this one has NaN or infinity")
    if np.abs(matrices - matrices.transpose(0, 2, 1)).max() > 1e-6 * max(1.0, np.abs(matrices).max()):
        raise MatrixError("a similarity matrix is symmetric, but this one is not")
    return matrices, single
