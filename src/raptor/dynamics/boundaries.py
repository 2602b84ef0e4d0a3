"""Are tokens faster where phases meet? All other placements of as many cuts are the comparison."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from raptor.phases import Phases


@dataclass(frozen=True)
class BoundaryTest:
    """Mean speed at the boundaries against that of every other placement of as many.

    Parameters
    ----------
    at_boundaries, elsewhere
        Mean speed of the steps that cross from a phase into the next, and of all others between two layers.
    p
        Share of placements, the own one included, whose mean speed is at least as high.
    smallest
        The least that p can be: one over the number of placements.
    """

    at_boundaries: float
    elsewhere: float
    p: float
    smallest: float


def boundary_test(speed: Sequence[float], phases: Phases) -> BoundaryTest | None:
    """Compare exactly; None where there is one phase, or nothing beside the boundaries.

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
    placements = list(itertools.combinations(steps, len(cuts)))
    total = {placement: sum(speed[step] for step in placement) for placement in placements}
    at_least = sum(value >= total[cuts] * (1 - 1e-12) for value in total.values())
    others = [speed[step] for step in steps if step not in cuts]
    return BoundaryTest(
        total[cuts] / len(cuts), sum(others) / len(others), at_least / len(placements), 1 / len(placements)
    )
