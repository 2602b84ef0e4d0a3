"""Test whether tokens are faster at phase boundaries than at other placements of as many boundaries."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raptor.core.phases import Phases

MOST = 100_000  # placements; more are sampled


@dataclass(frozen=True)
class BoundaryTest:
    """Permutation test of the mean speed at phase boundaries, over all placements or 100,000 random ones.

    Parameters
    ----------
    at_boundaries, elsewhere
        Mean speed (radians) of the steps that cross a boundary, and of the other steps between two layers.
    p
        Share of placements whose mean speed is at least as high; the tested placement counts.
    smallest
        Smallest attainable p: one over the number of placements.
    """

    at_boundaries: float
    elsewhere: float
    p: float
    smallest: float


def boundary_test(speed: Sequence[float], phases: Phases) -> BoundaryTest | None:
    """Test whether the speed is higher at phase boundaries; exact up to 100,000 placements.

    Return None where there is one phase, or no step that is not a boundary. Boundaries from the same similarities as
    the speed make the test circular: take them from another token group or from other images.

    Parameters
    ----------
    speed
        Mean speed of the steps 0..L-1; step l goes from layer l to layer l + 1. Step 0 leaves the embedding and is
        never a boundary.
    phases
        Phases of the layers 1..L.
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
    """Yield all placements of as many cuts; where there are too many, the given one and random others."""
    if math.comb(len(steps), len(cuts)) <= MOST:
        yield from itertools.combinations(steps, len(cuts))
        return
    yield cuts
    draw = random.Random(0)
    for _ in range(MOST - 1):
        yield draw.sample(steps, len(cuts))
