"""The analysis of studies against scipy, closed forms and hand-written answers."""

from __future__ import annotations

import math
import sys

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
    mixed_difference,
    pooled_deviation,
    smallest_detected,
    teachers_needed,
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


def teachers(rng, n, kinds, between, within=0.02):
    """Return observations of n teachers, each with a level of its own: (teacher, value) of each kind."""
    level = rng.normal(0.5, between, n)
    return [
        [(one, level[one] + shift + rng.normal(0, within)) for one in range(n) for _ in range(count)]
        for count, shift in kinds
    ]


@pytest.mark.parametrize(("n", "counts"), [(4, (1, 1)), (6, (1, 5)), (3, (2, 3))])
def test_a_mixed_model_of_a_balanced_design_has_its_closed_form(n, counts):
    """With the same number of observations of each kind in every teacher, the estimate is the difference of means.

    Its variance is s^2 / n (1/a + 1/b), with the residual mean square s^2 of the two-way layout without interaction.
    """
    pytest.importorskip("statsmodels")
    rng = np.random.default_rng(n)
    treated, control = teachers(rng, n, ((counts[0], 0.1), (counts[1], 0.0)), between=0.3)
    found = mixed_difference(treated, control)
    values = [np.array([value for _, value in own]).reshape(n, -1) for own in (treated, control)]
    everything = np.concatenate(values, axis=1)
    effect = values[0].mean() - values[1].mean()
    fitted = np.concatenate([np.full_like(own, own.mean()) for own in values], axis=1)
    residual = everything - fitted - (everything.mean(axis=1, keepdims=True) - everything.mean())
    s2 = (residual**2).sum() / (everything.size - n - 1)
    half = stats.norm.ppf(0.975) * math.sqrt(s2 / n * sum(1 / count for count in counts))
    assert found.value == pytest.approx(effect, rel=1e-6)
    assert found.n == n * sum(counts)
    assert found.ci == pytest.approx([effect - half, effect + half], rel=1e-3)
    if counts == (1, 1):  # a paired design
        differences = values[0][:, 0] - values[1][:, 0]
        assert half == pytest.approx(1.959964 * differences.std(ddof=1) / math.sqrt(n), rel=1e-5)


def test_teachers_that_do_not_differ_give_the_pooled_interval():
    """With no variance between teachers, which is estimated as 0, the model is a comparison of two samples."""
    pytest.importorskip("statsmodels")
    treated = [(0, 1.0), (1, 1.3), (2, 1.1)]
    control = [(0, 0.6), (1, 0.2), (2, 0.5)]
    found = mixed_difference(treated, control)
    variance = sum(np.var([value for _, value in own], ddof=1) for own in (treated, control)) / 2
    half = stats.norm.ppf(0.975) * math.sqrt(variance * 2 / 3)
    assert found.ci == pytest.approx([0.7 - half, 0.7 + half], rel=0.01)


def test_a_mixed_model_needs_statsmodels_and_three_teachers(monkeypatch):
    three = [(0, 1.0), (1, 1.3), (2, 1.1)], [(0, 0.6), (1, 0.2), (2, 0.5)]
    assert mixed_difference(three[0][:2], three[1][:2]) is None
    assert mixed_difference(three[0], []) is None
    assert mixed_difference([(one, math.nan) for one, _ in three[0]], three[1]) is None
    monkeypatch.setitem(sys.modules, "statsmodels.regression.mixed_linear_model", None)
    assert mixed_difference(*three) is None
    claim = Hypothesis("tying helps", 0.06, "difference").judge(Estimate(0.1, 0.05, 0.2, 6), mixed=None)
    assert "mixed" not in to_plain(claim)
    claim = Hypothesis("tying helps", 0.06, "difference").judge(
        Estimate(0.1, 0.05, 0.2, 6), mixed=Estimate(0.1, -0.5, 0.7, 6)
    )
    assert claim.held is True  # it decides nothing
    assert to_plain(claim)["mixed_ci"] == [-0.5, 0.7]


def test_the_number_of_teachers_that_an_effect_needs():
    """It is the smallest n whose detected effect is at most the effect."""
    needed = teachers_needed(0.05, 0.06)
    assert smallest_detected(0.05, needed) <= 0.06 * 1.03
    assert smallest_detected(0.05, needed - 1) > 0.06 * 0.97
    assert teachers_needed(1.0, 0.06, most=5) is None
