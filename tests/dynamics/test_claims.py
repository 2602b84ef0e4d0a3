"""Claims about sensitivity: a trend that is not significant is inconclusive."""

from __future__ import annotations

import math

import pytest
from scipy.stats import spearmanr

from raptor.dynamics.claims import later_perturbations

RISING = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
FALLING = RISING[::-1]
NEARLY = [3.0, 5.0, 4.0, 2.0, 3.5, 2.5]


@pytest.mark.parametrize(
    ("cls", "patch", "held"),
    [(RISING, FALLING, True), (RISING, RISING, False), (FALLING, FALLING, False), (RISING, NEARLY, None)],
    ids=["falls", "rises", "cls is not late", "by chance"],
)
def test_a_trend_must_be_more_than_chance(cls, patch, held):
    found, chance, late = later_perturbations(patch, cls)
    assert found is held
    assert chance == pytest.approx(spearmanr(range(6), patch).pvalue)
    assert late == cls[-1] / cls[3]


def test_perturbations_without_effect_are_inconclusive():
    held, _, late = later_perturbations(FALLING, [0.0] * 6)
    assert held is None
    assert math.isnan(late)
