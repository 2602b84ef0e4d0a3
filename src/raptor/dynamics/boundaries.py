"""Are tokens faster where phases meet? All other placements of as many cuts are the comparison."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raptor.phases import Phases

MOST = 100_000  # placements that are gone through


@dataclass(frozen=True)
class BoundaryTest:
    """Mean speed at the boundaries against that of every other placement of as many, or of 100,000 of them.

    Parameters
    ----------
    at_boundaries, elsewhere
        Mean speed of the steps that cross from a phase into the next, and of all others between two layers.
    p
        Share of placements, the own one included, whose mean speed is at least as high.
    smallest
        The least that p can be: one over the number of placements that were compared.
    """

    at_boundaries: float
    elsewhere: float
    p: float
    smallest: float


def boundary_test(speed: Sequence[float], phases: Phases) -> BoundaryTest | None:
    """Compare, exactly up to 100,000 placements; None where there is one phase, or nothing beside the boundaries.

    Cuts that come from the same similarities as the speed make this circular: take them from another token group, or
    from other images.

    Parameters
    ----------
    speed
        Of the steps 0..L-1; step l goes from layer l to layer l + 1. Step 0 leaves the embedding and is no boundary.
    phases
        Of the layers 1..L.
    """
    phases.check_depth(len(speed))
    steps = range(1, len(speed))
    cuts = phases.boundaries
    if not cuts or len(cuts) == len(steps):
        return None
    own = sum(speed[step] for step in cuts)
    at_least = count = 0
    for placement in _placements(steps, cuts):
        at_least += sum(speed[step] for step in placement) >= own * (1 - 1e-12)
        count += 1
    others = [speed[step] for step in steps if step not in cuts]
    return BoundaryTest(own / len(cuts), sum(others) / len(others), at_least / count, 1 / count)


def _placements(steps: range, cuts: tuple[int, ...]) -> Iterator[Sequence[int]]:
    """Yield all placements of as many cuts; where there are too many, the own one and others drawn at random."""
    if math.comb(len(steps), len(cuts)) <= MOST:
        yield from itertools.combinations(steps, len(cuts))
        return
    yield cuts
    draw = random.Random(0)
    for _ in range(MOST - 1):
        yield draw.sample(steps, len(cuts))
