"""Whether speed is steady within phases, against an exhaustive search over all placements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from raptor.core.phases import Phases
from raptor.core.placements import placements
from raptor.dynamics import stationarity
from raptor.dynamics.stationarity import between_phases, stationarity_test


def lengths_of(depth, k, least):
    """Yield all partitions, by trying all tuples."""
    return [one for one in itertools.product(range(least, depth + 1), repeat=k) if sum(one) == depth]


@pytest.mark.parametrize(("depth", "k", "least"), [(6, 2, 2), (12, 3, 2), (9, 4, 1), (7, 1, 2)])
def test_placements_are_all_partitions_with_a_minimum_length(depth, k, least):
    assert sorted(placements(depth, k, least)) == sorted(lengths_of(depth, k, least))


def test_speed_that_is_constant_in_each_phase_is_explained_wholly():
    speed, phases = [9.0, *[0.1] * 3, 0.7, *[0.5] * 2, 0.9, *[0.2] * 4], Phases((4, 3, 5))
    found = stationarity_test({"cls": speed}, {"cls": phases}, guarded=True)
    assert found.explained == pytest.approx(1.0)
    assert found.p == found.smallest == pytest.approx(1 / len(lengths_of(12, 3, 2)))
    assert stationarity_test({"cls": speed}, {"cls": Phases((12,))}, guarded=True) is None
    assert stationarity_test({"cls": [0.3] * 12}, {"cls": phases}, guarded=True) is None


def explained(speed, lengths):
    """Return one minus the ratio of the sums of squares, as in an analysis of variance; crossing steps are alone."""
    speed, parts, start = np.array(speed), [], 0
    for length in lengths:
        parts.append(speed[start + 1 : start + length])
        start += length
    within = sum(((part - part.mean()) ** 2).sum() for part in parts if len(part))
    return 1 - within / ((speed[1:] - speed[1:].mean()) ** 2).sum()


def test_two_groups_at_boundaries_of_their_own_are_moved_independently():
    drawn = np.random.default_rng(0)
    speeds = {"cls": drawn.random(10), "patch": drawn.random(10)}
    cuts = {"cls": Phases((3, 3, 4)), "patch": Phases((2, 6, 2))}
    found = stationarity_test(speeds, cuts, guarded=True)
    own = np.mean([explained(speeds[group], cuts[group].lengths) for group in cuts])
    every = [
        (explained(speeds["cls"], one) + explained(speeds["patch"], other)) / 2
        for one, other in itertools.product(lengths_of(10, 3, 2), repeat=2)
    ]
    assert found.explained == pytest.approx(own)
    assert found.expected == pytest.approx(np.mean(every))
    assert found.p == pytest.approx(np.mean(np.array(every) >= own - 1e-12))
    assert found.smallest == pytest.approx(1 / len(every))


def test_groups_that_share_boundaries_are_moved_together():
    drawn = np.random.default_rng(1)
    speeds, cut = {"cls": drawn.random(9), "patch": drawn.random(9)}, Phases((4, 5))
    found = stationarity_test(speeds, {"cls": cut, "patch": cut}, guarded=False)
    assert found.smallest == pytest.approx(1 / len(lengths_of(9, 2, 2)))
    assert not found.guarded


def test_many_placements_are_drawn(monkeypatch):
    monkeypatch.setattr(stationarity, "MOST", 1000)
    drawn = np.random.default_rng(2)
    speeds = {"cls": drawn.random(14), "patch": drawn.random(14)}
    cuts = {"cls": Phases((4, 5, 5)), "patch": Phases((6, 4, 4))}
    found = stationarity_test(speeds, cuts, guarded=True)
    assert found.smallest == pytest.approx(1 / 1000)
    monkeypatch.setattr(stationarity, "MOST", 10**6)
    exact = stationarity_test(speeds, cuts, guarded=True)
    assert found.p == pytest.approx(exact.p, abs=0.08)  # five standard errors


def test_steps_that_do_not_count_are_left_out():
    """Speed of tokens that no head reads ends one step earlier; the phases are still those of all layers."""
    speed = np.array([9.0, *[0.1] * 3, 0.7, *[0.5] * 3])
    assert between_phases(speed, Phases((4, 5))) == pytest.approx(1.0)
