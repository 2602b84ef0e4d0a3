"""Speed where phases meet, against all other placements of as many cuts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from raptor.core.phases import Phases
from raptor.dynamics import boundaries
from raptor.dynamics.boundaries import boundary_test


def test_boundaries_against_all_other_placements():
    """Of the steps 1..7 the two fastest are the boundaries: one of 21 placements."""
    speed = [9.0, 0.1, 0.1, 1.0, 0.1, 0.1, 0.8, 0.1]
    found = boundary_test(speed, Phases((3, 3, 2)))
    assert found.p == found.smallest == pytest.approx(1 / 21)
    assert found.at_boundaries == pytest.approx(0.9)
    assert found.elsewhere == pytest.approx(0.1)
    slow = boundary_test(speed, Phases((2, 3, 3)))
    assert slow.p == 1.0
    assert boundary_test(speed, Phases((8,))) is None


def test_many_placements_are_drawn():
    """Twenty-five steps and six cuts are 134,596 placements, more than are gone through; all of them are the oracle."""
    speed = np.random.default_rng(0).random(25).tolist()
    phases = Phases((4, 4, 4, 4, 4, 3, 2))
    found = boundary_test(speed, phases)
    totals = np.array([sum(speed[i] for i in cuts) for cuts in itertools.combinations(range(1, 25), 6)])
    own = sum(speed[end] for end in phases.boundaries)
    assert len(totals) > boundaries.MOST
    assert found.smallest == 1 / boundaries.MOST
    assert found.p == pytest.approx((totals >= own - 1e-12).mean(), abs=0.008)  # five standard errors
    assert found.at_boundaries == pytest.approx(own / 6)
