"""The best contiguous partition of a layer-layer similarity matrix into phases."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ParamSpec, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from raptor.core.phases import Phases
from raptor.errors import OptionError, PhaseError
from raptor.phases.matrix import as_matrices
from raptor.phases.objectives import find_objective
from raptor.phases.solvers import DIGITS, Ends, Values, find_solver, ranked, total_value

NEAR = 0.005  # partitions whose score is this close to the best are listed
MOST_NEAR = 100  # maximum number of near-optimal partitions that are listed
Matrices = Float[np.ndarray, "n layers layers"]
Matrix = Any  # anything that NumPy can read as an array: an ndarray, a tensor, nested lists

ScoreOf = Callable[[float, int], float]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class ScoredPartition:
    """A partition and its score; `phases, score = partition` works too.

    Parameters
    ----------
    phases
        The partition.
    score
        Its score, on the scale of the objective.
    """

    phases: Phases
    score: float

    def __iter__(self) -> Iterator[Any]:
        return iter((self.phases, self.score))

    def __getitem__(self, index: int) -> Any:
        return (self.phases, self.score)[index]


@dataclass(frozen=True)
class Segmentation:
    """The best partition of one matrix into k phases, and how it compares with others.

    Parameters
    ----------
    phases, score
        The partition that the solver found, and its score on the scale of the objective.
    by_k
        The same for k and every smaller number of phases.
    objective, min_length
        How it was partitioned.
    values
        Value of every segment i+1..j.
    score_of
        `score_of(total, k)`: the score of k segments whose values add up to `total`.
    matrix
        The similarity matrix (layers, layers); None where segments were valued in another way.
    """

    phases: Phases
    score: float
    by_k: dict[int, ScoredPartition]
    objective: str
    min_length: int
    values: NDArray[Any] = field(repr=False, compare=False)
    score_of: ScoreOf = field(repr=False, compare=False)
    matrix: NDArray[Any] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _others(self) -> list[ScoredPartition]:
        """The best other partition, and those after it that are near-optimal and may be listed."""
        listed: list[ScoredPartition] = []
        for ends in ranked(self.values, self.phases.k):
            partition = _scored(self.values, ends, self.score_of)
            if listed and (partition.score < self.score - NEAR or len(listed) > MOST_NEAR):
                break
            if partition.phases != self.phases:
                listed.append(partition)
        return listed

    @property
    def runner_up(self) -> ScoredPartition | None:
        """The best other partition; None where there is no other.

        A solver that is not exact may miss a better partition. The runner-up is then that one, and the gap is negative.
        """
        return self._others[0] if self._others else None

    @property
    def gap(self) -> float | None:
        """Score of the partition minus the score of the runner-up."""
        return None if self.runner_up is None else round(self.score - self.runner_up.score, DIGITS)

    @property
    def near_optimal(self) -> tuple[ScoredPartition, ...]:
        """All partitions within 0.005 of this one or better, this one included, best first; at most 100."""
        near = [
            ScoredPartition(self.phases, self.score),
            *(one for one in self._others if one.score >= self.score - NEAR),
        ]
        near.sort(key=lambda one: (-round(one.score, DIGITS), one.phases.boundaries))
        return tuple(near[:MOST_NEAR])

    @property
    def near_optimal_truncated(self) -> bool:
        """Whether there are more near-optimal partitions than are listed."""
        return len(self._others) >= MOST_NEAR and self._others[MOST_NEAR - 1].score >= self.score - NEAR


def _accept_batches(function: Callable[P, R]) -> Callable[P, R]:
    """Let `segment` still take a batch of matrices, with a FutureWarning."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if np.ndim(args[0] if args else kwargs["similarity"]) == 3:  # type: ignore[arg-type]
            warnings.warn("segment of several matrices is deprecated: use segment_batch", FutureWarning, stacklevel=2)
            return segment_batch(*args, **kwargs)  # type: ignore[arg-type, return-value]
        return function(*args, **kwargs)

    return called


@_accept_batches
def segment(
    similarity: Matrix, k: int, objective: str = "weighted", min_length: int = 2, solver: str = "dp"
) -> Segmentation:
    """Partition the layers of a similarity matrix into k contiguous phases.

    Parameters
    ----------
    similarity
        Symmetric matrix (layers, layers); any array. Rows are the layers 1..L: leave out layer 0, which is in no phase.
    k
        Number of phases; all smaller numbers are solved too.
    objective
        `weighted` (sum/n over segments of n layers), `mean` (sum/n^2, as the paper prints it), `cut`, or any other that
        is registered.
    min_length
        Minimum number of layers in a phase.
    solver
        `dp`, exact dynamic programming; `exhaustive`, all partitions; `recursive`, repeated splits in two as in the
        released code, which is not exact.

    Returns
    -------
    Segmentation
        The best partition. Ties go to the partition with the earliest boundaries.
    """
    (only,) = segment_batch(similarity, k, objective, min_length, solver)
    return only


def segment_batch(
    similarities: Matrix, k: int, objective: str = "weighted", min_length: int = 2, solver: str = "dp"
) -> list[Segmentation]:
    """Partition the layers of several similarity matrices into k contiguous phases each.

    Parameters
    ----------
    similarities
        Symmetric matrices (n, layers, layers); any array.
    k, objective, min_length, solver
        As in `segment`.
    """
    score = find_objective(objective).score  # a wrong name is an error before a wrong matrix
    find_solver(solver)
    matrices = as_matrices(similarities)
    check_possible(matrices.shape[1], k, min_length)
    return [
        replace(
            segment_table(values, k, objective, min_length, partial(_of_matrix, score, matrix), solver), matrix=matrix
        )
        for matrix, values in zip(matrices, segment_values(matrices, objective, min_length), strict=True)
    ]


def segment_table(
    values: NDArray[Any], k: int, objective: str, min_length: int, score_of: ScoreOf, solver: str = "dp"
) -> Segmentation:
    """Partition layers into k contiguous phases, given the value of every segment.

    Parameters
    ----------
    values
        (L + 1, L + 1): the value of the segment i+1..j; -inf where it is not allowed.
    k, min_length, solver
        As in `segment`.
    objective
        What the values are, in a word.
    score_of
        As in `Segmentation`.
    """
    by_k = {j: _scored(values, ends, score_of) for j, ends in find_solver(solver)(values, k).items()}
    return Segmentation(by_k[k].phases, by_k[k].score, by_k, objective, min_length, values, score_of)


def _of_matrix(score: Callable[[float, int, Any], float], matrix: NDArray[Any], total: float, k: int) -> float:
    return score(total, k, matrix)


def _scored(values: NDArray[Any], ends: Ends, score_of: ScoreOf) -> ScoredPartition:
    score = score_of(total_value(values, ends), len(ends))
    return ScoredPartition(Phases.from_boundaries(ends[:-1], ends[-1]), float(score))


def check_possible(layers: int, k: int, min_length: int) -> None:
    """Raise unless `layers` layers can be partitioned into k phases of at least `min_length` layers."""
    if not all(isinstance(number, (int, np.integer)) for number in (k, min_length)):
        raise OptionError(f"k and min_length are integers, not {k!r} and {min_length!r}")
    if k < 1 or min_length < 1:
        raise PhaseError(f"k and min_length are at least 1, not {k} and {min_length}")
    if k * min_length > layers:
        raise PhaseError(
            f"{layers} layers cannot be split into {k} phases of at least {min_length} layers: k is at most "
            f"{layers // min_length}"
        )


def segment_values(matrices: Matrices, objective: str, min_length: int) -> Values:
    """Return the value of every segment i+1..j of every matrix; -inf where it is shorter than `min_length`."""
    n, layers = matrices.shape[:2]
    prefix = np.zeros((n, layers + 1, layers + 1))
    np.cumsum(np.cumsum(matrices, axis=1), axis=2, out=prefix[:, 1:, 1:])
    corner = np.einsum("nii->ni", prefix)
    sums = corner[:, None, :] + corner[:, :, None] - prefix - prefix.transpose(0, 2, 1)
    lengths = np.subtract.outer(-np.arange(layers + 1), -np.arange(layers + 1)).astype(float)
    return np.where(lengths >= min_length, find_objective(objective).value(sums, np.maximum(lengths, 1)), -np.inf)
