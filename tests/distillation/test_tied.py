"""A teacher that is three tied blocks is found again from random weights, by blocks of either kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raptor.core.phases import Phases
from tied import TIED, r2_by_layer, random_surrogate, tied_teacher, trained


@pytest.fixture(scope="module")
def teacher():
    return tied_teacher()


def test_standing_still_is_no_answer(teacher):
    """At the end of each phase the identity explains less than half."""
    _, still = r2_by_layer(teacher, random_surrogate(teacher, TIED, "swiglu"))
    assert all(still[span[-1] - 1] < 0.5 for span in TIED.ranges)


@pytest.mark.parametrize(
    ("kind", "steps", "reached"),
    [pytest.param(*case, marks=pytest.mark.long) for case in (("teacher", 120, 0.7), ("swiglu", 100, 0.5))],
)
def test_tied_blocks_are_soon_on_their_way(teacher, kind, steps, reached):
    r2, _ = r2_by_layer(teacher, trained(teacher, TIED, kind, steps))
    assert min(r2) > reached


@pytest.mark.long
def test_one_block_for_all_layers_stays_behind(teacher):
    three, one = (
        r2_by_layer(teacher, trained(teacher, phases, "teacher", 80))[0][-1] for phases in (TIED, Phases((12,)))
    )
    assert one < three - 0.1


@pytest.mark.parametrize("kind", ["teacher", "swiglu"])
def test_the_curves_of_the_docs_end_where_they_should(kind):
    """Minutes of `tests/helpers/tied.py`, kept: every layer above .95, and one block for all at least .1 below."""
    lines = (Path(__file__).parents[2] / "docs" / "data" / "tied_curves.jsonl").read_text().splitlines()
    ends = {
        point["phases"]: point["r2"]
        for point in map(json.loads, lines)
        if (point["kind"], point["stage"], point["step"]) == (kind, "stage2", point["steps"])
    }
    assert min(ends["5-4-3"]) > 0.95
    assert ends["12"][-1] < ends["5-4-3"][-1] - 0.1
