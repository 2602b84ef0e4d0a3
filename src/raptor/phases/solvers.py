"""Solvers: the best partition of L layers into k contiguous segments, given the value of each segment.

A solver sees an objective only through a table: `values[i, j]` is the value of the segment of the layers i+1..j, or
-inf where that segment is not allowed. The value of a partition is the sum over its segments.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from raptor.errors import OptionError, PhaseError

EXHAUSTIBLE = 2_000_000  # maximum number of partitions for the exhaustive solver

Values = Float[np.ndarray, "n places places"]


def best_suffixes(values: Values, k: int) -> Float[np.ndarray, "k1 n places"]:
    """Return the best value of covering the layers after each place by 0..k segments.

    `table[j, n, s] = max over e of values[n, s, e] + table[j - 1, n, e]`: row j is for j segments, so one table serves
    all numbers up to k.
    """
    table = np.full((k + 1, *values.shape[:2]), -np.inf)
    table[0, :, -1] = 0.0
    for j in range(1, k + 1):
        np.max(values + table[j - 1][:, None, :], axis=2, out=table[j])
    return table


def best_boundaries(values: Values, table: Float[np.ndarray, "k1 n places"], k: int) -> Int[np.ndarray, "n k"]:
    """Return the ends of the k segments of the best partition of every matrix."""
    rows = np.arange(len(values))
    place = np.zeros(len(values), dtype=int)
    ends = np.empty((len(values), k), dtype=int)
    for index, left in enumerate(range(k - 1, -1, -1)):
        place = _first_best(values[rows, place] + table[left])
        ends[:, index] = place
    return ends


def _first_best(totals: Float[np.ndarray, "n places"]) -> Int[np.ndarray, " n"]:
    """Return the first place of each row that is best up to rounding: ties go to the earliest boundary."""
    return np.argmax(totals >= totals.max(axis=1, keepdims=True) - 10.0**-DIGITS, axis=1)


Ends = tuple[int, ...]
DIGITS = 10  # values that agree to this many decimals are a tie, which the earliest boundaries win


def ranked(values: NDArray[Any], k: int) -> Iterator[Ends]:
    """Yield the ends of all partitions into k segments, best first; ties are ordered by their boundaries.

    This is a best-first search over partial partitions. The table gives the exact value of the best completion, so the
    search expands only what comes next.
    """
    last = len(values) - 1
    suffixes = best_suffixes(values[None], k)[:, 0]
    heap: list[tuple[float, Ends, float]] = [(0.0, (), 0.0)]
    while heap:
        _, ends, sofar = heapq.heappop(heap)
        if len(ends) == k:
            yield ends
            continue
        start, left = (ends[-1] if ends else 0), k - len(ends) - 1
        for end in range(start + 1, last + 1):
            bound = sofar + values[start, end] + suffixes[left, end]
            if bound > -np.inf:
                heapq.heappush(heap, (-round(float(bound), DIGITS), (*ends, end), sofar + float(values[start, end])))


def total_value(values: NDArray[Any], ends: Ends) -> float:
    """Return the value of a partition."""
    return float(sum(values[start, end] for start, end in zip((0, *ends), ends, strict=False)))


def _dynamic(values: NDArray[Any], k: int) -> dict[int, Ends]:
    table = best_suffixes(values[None], k)[:, 0]
    place, ends = np.zeros(k, dtype=int), np.zeros((k, k), dtype=int)
    for index in range(k):
        # Row j is the partition into j + 1 segments; all that have a segment number `index` choose its end at once.
        rows = np.arange(index, k)
        place[rows] = _first_best(values[place[rows]] + table[rows - index])
        ends[rows, index] = place[rows]
    return {j + 1: tuple(ends[j, : j + 1].tolist()) for j in range(k)}


def _exhaustive(values: NDArray[Any], k: int) -> dict[int, Ends]:
    layers = len(values) - 1
    partitions = sum(math.comb(layers - 1, j - 1) for j in range(1, k + 1))
    if partitions > EXHAUSTIBLE:
        raise OptionError(
            f"{layers} layers have {partitions:,} partitions into up to {k} phases, too many for the solver "
            f"'exhaustive' (at most {EXHAUSTIBLE:,}): use the solver 'dp', which gives the same result"
        )
    best: dict[int, Ends] = {}
    for j in range(1, k + 1):
        every = ((*inner, layers) for inner in combinations(range(1, layers), j - 1))
        best[j] = min(every, key=lambda ends: (-round(total_value(values, ends), DIGITS), ends))
    return best


def _recursive(values: NDArray[Any], k: int) -> dict[int, Ends]:
    """Split the segment whose best split gains most, k - 1 times."""
    best: dict[int, Ends] = {1: (len(values) - 1,)}
    for j in range(2, k + 1):
        ends = best[j - 1]
        splits = [
            (round(float(values[start, cut] + values[cut, end] - values[start, end]), DIGITS), -cut)
            for start, end in zip((0, *ends), ends, strict=False)
            for cut in range(start + 1, end)
            if values[start, cut] + values[cut, end] > -np.inf
        ]
        if not splits:
            raise PhaseError(f"the solver 'recursive' cannot reach {k} phases here: use the solver 'dp'")
        best[j] = tuple(sorted((*ends, -max(splits)[1])))
    return best


# Returns the ends of the best segments for every number of segments up to k.
Solver = Callable[[NDArray[Any], int], dict[int, Ends]]
SOLVERS: dict[str, Solver] = {
    "dp": _dynamic,
    "recursive": _recursive,
    "exhaustive": _exhaustive,
}


def find_solver(name: str) -> Solver:
    """Return the solver of a name."""
    if name not in SOLVERS:
        raise OptionError(f"solver {name!r} is none of {', '.join(SOLVERS)}")
    return SOLVERS[name]
