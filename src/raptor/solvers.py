"""Solvers: the best partition of L layers into k contiguous segments, given what each segment is worth.

They know an objective through one table only: `values[i, j]` is the value of the segment of the layers
i+1..j, -inf where that segment may not be, and a partition is worth the sum over its segments.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from raptor.errors import OptionError, PhaseError

EXHAUSTIBLE = 2_000_000  # partitions that the exhaustive solver goes through at most

Values = Float[np.ndarray, "n places places"]


def best_suffixes(values: Values, k: int) -> Float[np.ndarray, "k1 n places"]:
    """Return the best value of covering the layers after each place by 0..k segments.

    `table[j, n, s] = max over e of values[n, s, e] + table[j - 1, n, e]`: one row a number of segments, so that
    all numbers up to k come from one table.
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
        totals = values[rows, place] + table[left]
        # The first that is best up to rounding: ties go to the earliest boundary on every machine.
        place = np.argmax(totals >= totals.max(axis=1, keepdims=True) - 1e-12, axis=1)
        ends[:, index] = place
    return ends


Ends = tuple[int, ...]
# What a solver finds: (value, ends) of its partition into k segments, then of others, best first; and its own by k.
Ranked = tuple[Iterator[tuple[float, Ends]], dict[int, tuple[float, Ends]]]


def ranked(values: NDArray[Any], suffixes: NDArray[Any], k: int) -> Iterator[tuple[float, Ends]]:
    """Yield (value, ends) of all partitions into k segments, best first, those of one value by their boundaries.

    A best-first search over beginnings of partitions: the table gives the value of the best completion exactly,
    so nothing is looked at that does not come out next.
    """
    last = len(values) - 1
    heap: list[tuple[float, Ends, float]] = [(-round(float(suffixes[k, 0]), 12), (), 0.0)]
    while heap:
        _, ends, sofar = heapq.heappop(heap)
        if len(ends) == k:
            yield sofar, ends
            continue
        start, left = (ends[-1] if ends else 0), k - len(ends) - 1
        for end in range(start + 1, last + 1):
            bound = sofar + values[start, end] + suffixes[left, end]
            if bound > -np.inf:
                heapq.heappush(heap, (-round(float(bound), 12), (*ends, end), sofar + float(values[start, end])))


def _total(values: NDArray[Any], ends: Ends) -> float:
    return float(sum(values[start, end] for start, end in zip((0, *ends), ends, strict=False)))


def _dynamic(values: NDArray[Any], k: int) -> Ranked:
    table = best_suffixes(values[None], k)
    by_k = {}
    for j in range(1, k + 1):
        ends = tuple(best_boundaries(values[None], table, j)[0].tolist())
        by_k[j] = (_total(values, ends), ends)
    return ranked(values, table[:, 0], k), by_k


def _exhaustive(values: NDArray[Any], k: int) -> Ranked:
    layers = len(values) - 1
    if math.comb(layers - 1, k - 1) > EXHAUSTIBLE:
        raise OptionError(
            f"{layers} layers have {math.comb(layers - 1, k - 1):,} partitions into {k} phases, too many to go "
            f"through one by one: use the solver 'dp', which finds the same"
        )

    def everything(j: int) -> list[tuple[float, Ends]]:
        partitions = [(*inner, layers) for inner in combinations(range(1, layers), j - 1)]
        totals = [(_total(values, ends), ends) for ends in partitions]
        return sorted((pair for pair in totals if pair[0] > -np.inf), key=lambda pair: (-round(pair[0], 12), pair[1]))

    return iter(everything(k)), {j: everything(j)[0] for j in range(1, k + 1)}


def _recursive(values: NDArray[Any], k: int) -> Ranked:
    """Split, k - 1 times, the segment whose best split gains most; what follows in the ranking is exact."""
    layers = len(values) - 1
    ends: Ends = (layers,)
    by_k = {1: (_total(values, ends), ends)}
    for j in range(2, k + 1):
        splits = [
            (values[start, cut] + values[cut, end] - values[start, end], -cut)
            for start, end in zip((0, *ends), ends, strict=False)
            for cut in range(start + 1, end)
        ]
        gain, cut = max(splits, default=(-np.inf, 0))
        if gain == -np.inf:
            raise PhaseError(f"splitting in two again and again gives no {k} phases here: use the solver 'dp'")
        ends = tuple(sorted((*ends, -cut)))
        by_k[j] = (_total(values, ends), ends)
    exact = ranked(values, best_suffixes(values[None], k)[:, 0], k)
    return chain([by_k[k]], (other for other in exact if other[1] != ends)), by_k


SOLVERS: dict[str, Callable[[NDArray[Any], int], Ranked]] = {
    "dp": _dynamic,
    "recursive": _recursive,
    "exhaustive": _exhaustive,
}
