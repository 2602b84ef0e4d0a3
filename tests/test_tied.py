"""A teacher that is three tied blocks is found again from random weights, by blocks of either kind."""

from __future__ import annotations

import pytest

from raptor.phases import Phases
from tied import TIED, r2_by_layer, random_surrogate, tied_teacher, trained


@pytest.fixture(scope="module")
def teacher():
    return tied_teacher()


def test_standing_still_is_no_answer(teacher):
    """At the end of each phase the identity explains less than half."""
    _, still = r2_by_layer(teacher, random_surrogate(teacher, TIED, "swiglu"))
    assert all(still[span[-1] - 1] < 0.5 for span in TIED.ranges)


def test_tied_blocks_are_found_again_and_one_block_is_not_enough(teacher):
    r2, _ = r2_by_layer(teacher, trained(teacher, TIED, "teacher", steps=400))
    assert min(r2) > 0.95
    single, _ = r2_by_layer(teacher, trained(teacher, Phases((12,)), "teacher", steps=200))
    assert single[-1] < r2[-1] - 0.1


def test_the_papers_block_is_well_on_its_way(teacher):
    """All the way takes minutes: docs/surrogates.md has the curve."""
    r2, _ = r2_by_layer(teacher, trained(teacher, TIED, "swiglu", steps=250))
    assert min(r2) > 0.8
