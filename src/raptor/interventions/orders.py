"""Layer orders of the experiments: within phases, and matched ones across phases (Figure 15 of the later version).

A decorator registers an experiment: `@pair_experiment` for one that changes pairs of layers, `@run_experiment` for one
that changes consecutive layers. It then is in result.json, in the terminal and in the figure.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raptor.core.phases import Phases

# Two layers, 0..L-1: the one that is changed, and the one that is used in its place or with it.
Pair = tuple[int, int]
MakeFromPairs = Callable[[int, Sequence[Pair]], list[int]]
MakeFromRun = Callable[[int, Sequence[int]], list[int]]
TRIES = 50  # attempts per order to draw disjoint pairs


@dataclass(frozen=True)
class MatchedOrders:
    """Layer orders of one experiment, within phases and across them, with the same distances between layers.

    Parameters
    ----------
    intra, inter
        Orders within phases and across phases; empty if there are none.
    """

    intra: tuple[tuple[int, ...], ...]
    inter: tuple[tuple[int, ...], ...]


# By name: `draw(phases, n, most, seed)` gives the orders that change n layers or pairs.
EXPERIMENTS: dict[str, Callable[[Phases, int, int, int], MatchedOrders]] = {}


def pair_experiment(make: MakeFromPairs) -> MakeFromPairs:
    """Register `make(depth, pairs)`, which returns the order of layers with some pairs changed, under its name."""
    EXPERIMENTS[make.__name__] = lambda phases, n, most, seed: paired(make, phases, n, most, seed)
    return make


def run_experiment(make: MakeFromRun) -> MakeFromRun:
    """Register `make(depth, run)`, which returns the order with some consecutive layers changed, under its name."""
    EXPERIMENTS[make.__name__] = lambda phases, n, most, seed: runs(make, phases, n)
    return make


@pair_experiment
def replace(depth: int, pairs: Sequence[Pair]) -> list[int]:
    """Run another layer in place of some layers."""
    instead = dict(pairs)
    return [instead.get(layer, layer) for layer in range(depth)]


@pair_experiment
def interchange(depth: int, pairs: Sequence[Pair]) -> list[int]:
    """Interchange pairs of layers."""
    return replace(depth, [both for one, other in pairs for both in ((one, other), (other, one))])


@run_experiment
def skip(depth: int, run: Sequence[int]) -> list[int]:
    """Leave out some layers."""
    return [layer for layer in range(depth) if layer not in set(run)]


@run_experiment
def repeat(depth: int, run: Sequence[int]) -> list[int]:
    """Run some consecutive layers twice."""
    last = max(run)
    return [*range(last + 1), *run, *range(last + 1, depth)]


def paired(make: MakeFromPairs, phases: Phases, n: int, most: int, seed: int = 0) -> MatchedOrders:
    """Draw orders that change n pairs of layers, all within a phase or all across phases, with the same distances.

    Parameters
    ----------
    make
        Returns the order for some pairs, such as `replace`.
    phases
        The phases.
    n
        Number of pairs that are changed at once; no layer is in two of them.
    most
        Maximum number of orders within phases, and across phases.
    seed
        Seed of the draw.
    """
    of = [phases.block_of(layer + 1) for layer in range(phases.depth)]
    by_distance: dict[bool, dict[int, list[Pair]]] = {True: defaultdict(list), False: defaultdict(list)}
    for one, other in itertools.permutations(range(phases.depth), 2):
        by_distance[of[one] == of[other]][abs(one - other)].append((one, other))
    shared = sorted(set(by_distance[True]) & set(by_distance[False]))
    draw = random.Random(seed)
    intra: list[tuple[int, ...]] = []
    inter: list[tuple[int, ...]] = []
    for _ in range(TRIES * most):
        if not shared or len(intra) == most:
            break
        distances = [draw.choice(shared) for _ in range(n)]
        both = [_disjoint([by_distance[within][d] for d in distances], draw) for within in (True, False)]
        within, across = (None if pairs is None else tuple(make(phases.depth, pairs)) for pairs in both)
        if within is not None and across is not None and within not in intra and across not in inter:
            intra.append(within)
            inter.append(across)
    return MatchedOrders(tuple(intra), tuple(inter))


def _disjoint(choices: Sequence[Sequence[Pair]], draw: random.Random) -> list[Pair] | None:
    """Draw one pair of each list so that no layer is in two pairs; None if that fails."""
    used: set[int] = set()
    found = []
    for pairs in choices:
        free = [pair for pair in pairs if not used & set(pair)]
        if not free:
            return None
        found.append(draw.choice(free))
        used |= set(found[-1])
    return found


def runs(make: MakeFromRun, phases: Phases, n: int) -> MatchedOrders:
    """Return all orders that change n consecutive layers, of one phase or of several; one layer is of one phase.

    Parameters
    ----------
    make
        Returns the order for a run of layers, such as `skip`.
    phases
        The phases.
    n
        Number of consecutive layers.
    """
    of = [phases.block_of(layer + 1) for layer in range(phases.depth)]
    found: dict[bool, list[tuple[int, ...]]] = {True: [], False: []}
    for start in range(phases.depth - n + 1):
        run = range(start, start + n)
        found[len({of[layer] for layer in run}) == 1].append(tuple(make(phases.depth, run)))
    return MatchedOrders(tuple(found[True]), tuple(found[False]))
