"""The analysis of studies against scipy, closed forms and hand-written answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from raptor.core.deserialize import from_plain
from raptor.core.estimate import Estimate
from raptor.core.serialize import to_plain
from raptor.studies.analysis import (
    Hypothesis,
    difference_interval,
    mean_interval,
    pooled_deviation,
    smallest_detected,
)
from raptor.studies.registry import Claim

samples = st.lists(st.floats(-3, 3), min_size=2, max_size=6).filter(lambda one: np.std(one) > 1e-3)


@given(samples)
def test_a_mean_has_the_interval_of_a_t_test(values):
    found, expected = mean_interval(values), stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.value, found.n) == (pytest.approx(np.mean(values)), len(values))
    assert found.ci == pytest.approx([expected.low, expected.high])


@given(samples, samples)
def test_a_difference_has_the_interval_of_a_t_test_of_two_samples(one, other):
    found, expected = difference_interval(one, other), stats.ttest_ind(one, other).confidence_interval(0.95)
    assert found.value == pytest.approx(np.mean(one) - np.mean(other))
    assert found.ci == pytest.approx([expected.low, expected.high])


def test_too_few_teachers_have_no_interval_and_nan_is_left_out():
    assert mean_interval([0.5, math.nan]).value == 0.5
    assert math.isnan(mean_interval([0.5, math.nan]).low)
    assert math.isnan(mean_interval([]).value)
    assert math.isnan(difference_interval([1.0], [0.5]).low)
    assert difference_interval([1.0, 2.0, math.nan], [0.5]).value == 1.0
    assert math.isnan(difference_interval([], [0.5]).value)
    assert pooled_deviation([1.0, 3.0], [5.0], []) == pytest.approx(math.sqrt(2))
    assert math.isnan(pooled_deviation([1.0], [2.0]))


def test_intervals_cover_what_they_should():
    """95% of the intervals of simulated experiments contain the true difference."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        found = difference_interval(rng.normal(0.3, 0.1, 3).tolist(), rng.normal(0.1, 0.1, 3).tolist())
        covered += found.low < 0.2 < found.high
    assert abs(covered / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize(
    ("low", "high", "held"),
    [
        (0.01, 0.20, True), (0.07, 0.20, True), (-0.01, 0.20, None), (-0.10, 0.05, False), (0.01, 0.05, False),
        (-0.10, 0.06, None), (math.nan, math.nan, None),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_interval(low, high, held):
    effect = Estimate((low + high) / 2, low, high, 6)
    claim = Hypothesis("tying helps", 0.06, "difference").judge(effect, "More.")
    assert claim.held is held
    assert claim.smallest_effect == 0.06
    assert claim.evidence.endswith("smallest effect of interest 0.06. More.")
    plain = to_plain(claim)
    assert set(plain) == {"text", "held", "evidence", "effect", "ci", "smallest_effect"}
    if not math.isnan(low):
        assert plain["ci"] == [low, high]
        assert to_plain(from_plain(Claim, plain)) == plain
    assert set(to_plain(Claim("a", None, "b"))) == {"text", "held", "evidence"}


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_smallest_detected_effect_is_that_of_the_noncentral_t(n):
    """The power of the test is P(T > t) of a noncentral t with 2n - 2 degrees of freedom."""
    free, deviation = 2 * n - 2, 0.03
    critical = stats.t.ppf(0.975, free)
    noncentral = brentq(lambda shift: stats.nct.sf(critical, free, shift) - 0.8, 0.1, 50)
    expected = noncentral * deviation * math.sqrt(2 / n)
    assert smallest_detected(deviation, n, simulations=200_000) == pytest.approx(expected, rel=0.01)


def test_power_by_counting():
    """Effects of the smallest detected size are found in 80% of experiments that are analysed one by one."""
    size, rng = smallest_detected(0.05, 3), np.random.default_rng(1)
    found = [
        difference_interval(rng.normal(size, 0.05, 3).tolist(), rng.normal(0, 0.05, 3).tolist()).low > 0
        for _ in range(3000)
    ]
    assert abs(np.mean(found) - 0.8) < 4 * math.sqrt(0.8 * 0.2 / 3000)
    assert math.isnan(smallest_detected(math.nan, 3))
    assert math.isnan(smallest_detected(0.1, 1))
