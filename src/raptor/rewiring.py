"""Flows whose layers are run in another order, and which orders tell phases from the rest (the later Figure 15)."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from raptor.errors import LayerError
from raptor.flow import DepthFlow
from raptor.phases import Phases

# Two layers, 0..L-1: the one that is changed, and the one that is used in its place or with it.
Pair = tuple[int, int]


class Rewired:
    """A flow that runs the steps of another in a given order; the other is left as it is.

    Parameters
    ----------
    flow
        Whose steps are run.
    order
        Which of its steps 0..L-1 to run, one after another.
    """

    def __init__(self, flow: DepthFlow, order: Sequence[int]):
        if any(not 0 <= step < flow.depth for step in order):
            raise LayerError(f"this flow has steps 0 to {flow.depth - 1}, not {list(order)}")
        self.flow, self.order = flow, tuple(order)
        self.depth, self.width, self.layout, self.head = len(self.order), flow.width, flow.layout, flow.head

    def embed(self, pixels: Tensor) -> Tensor:
        """Embed as the flow does."""
        return self.flow.embed(pixels)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Run the step that stands at this place."""
        return self.flow.step(tokens, self.order[layer])

    def readout(self, tokens: Tensor) -> Tensor:
        """Read out as the flow does."""
        return self.flow.readout(tokens)

    @property
    def unchanged(self) -> int:
        """How many steps at the beginning are those of the flow itself."""
        same = itertools.takewhile(lambda both: both[0] == both[1], enumerate(self.order))
        return sum(1 for _ in same)


def replace(depth: int, pairs: Sequence[Pair]) -> list[int]:
    """Run another layer in place of some."""
    instead = dict(pairs)
    return [instead.get(layer, layer) for layer in range(depth)]


def interchange(depth: int, pairs: Sequence[Pair]) -> list[int]:
    """Let pairs of layers change places."""
    return replace(depth, [both for one, other in pairs for both in ((one, other), (other, one))])


def skip(depth: int, run: Sequence[int]) -> list[int]:
    """Leave some layers out."""
    return [layer for layer in range(depth) if layer not in set(run)]


def repeat(depth: int, run: Sequence[int]) -> list[int]:
    """Run some layers twice, one after another, before going on."""
    last = max(run)
    return [*range(last + 1), *run, *range(last + 1, depth)]


@dataclass(frozen=True)
class Choice:
    """Orders of one kind, within phases and across them, matched in what else distinguishes them.

    Parameters
    ----------
    intra, inter
        As many of either, with the same distances between layers; none where there are no such orders.
    """

    intra: tuple[tuple[int, ...], ...]
    inter: tuple[tuple[int, ...], ...]


def paired(
    make: Callable[[int, Sequence[Pair]], list[int]], phases: Phases, n: int, most: int, seed: int = 0
) -> Choice:
    """Draw orders that change n pairs of layers, all within a phase or all across, with the same distances.

    Parameters
    ----------
    make
        `replace` or `interchange`.
    phases
        Which layers belong together.
    n
        Pairs that are changed at once; no layer is in two of them.
    most
        Orders of either kind.
    seed
        Of the draw.
    """
    of = [phases.block_of(layer + 1) for layer in range(phases.depth)]
    by_distance: dict[bool, dict[int, list[Pair]]] = {True: defaultdict(list), False: defaultdict(list)}
    for one, other in itertools.permutations(range(phases.depth), 2):
        by_distance[of[one] == of[other]][abs(one - other)].append((one, other))
    shared = sorted(set(by_distance[True]) & set(by_distance[False]))
    draw = random.Random(seed)
    found: dict[bool, list[tuple[int, ...]]] = {True: [], False: []}
    for _ in range(50 * most):
        if not shared or len(found[True]) == most:
            break
        distances = [draw.choice(shared) for _ in range(n)]
        both = [_disjoint([by_distance[within][d] for d in distances], draw) for within in (True, False)]
        orders = [None if pairs is None else tuple(make(phases.depth, pairs)) for pairs in both]
        if None not in orders and orders[0] not in found[True] and orders[1] not in found[False]:
            found[True].append(orders[0])  # type: ignore[arg-type]
            found[False].append(orders[1])  # type: ignore[arg-type]
    return Choice(tuple(found[True]), tuple(found[False]))


def _disjoint(choices: Sequence[Sequence[Pair]], draw: random.Random) -> list[Pair] | None:
    """Draw one pair of each list, no layer twice; None where that did not succeed."""
    used: set[int] = set()
    found = []
    for pairs in choices:
        free = [pair for pair in pairs if not used & set(pair)]
        if not free:
            return None
        found.append(draw.choice(free))
        used |= set(found[-1])
    return found


def runs(make: Callable[[int, Sequence[int]], list[int]], phases: Phases, n: int) -> Choice:
    """Return all orders that change n consecutive layers, of one phase or of two; one layer is always of one phase.

    Parameters
    ----------
    make
        `skip` or `repeat`.
    phases
        Which layers belong together.
    n
        Length of the run.
    """
    of = [phases.block_of(layer + 1) for layer in range(phases.depth)]
    found: dict[bool, list[tuple[int, ...]]] = {True: [], False: []}
    for start in range(phases.depth - n + 1):
        run = range(start, start + n)
        found[len({of[layer] for layer in run}) == 1].append(tuple(make(phases.depth, run)))
    return Choice(tuple(found[True]), tuple(found[False]))
