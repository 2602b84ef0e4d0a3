"""The law of a budget against closed forms and simulation."""

import numpy as np
import pytest
from scipy import stats

from raptor.distillation.planning.law import FinishedRun, fit_law
from raptor.errors import OptionError

BUDGETS = (6_000, 12_000, 23_000, 46_000, 93_000)


def law(images, ceiling, level, slope):
    return ceiling / (1 + np.exp(-(level + slope * np.log(images))))


def runs(ceiling, level, slope, noise=0.0, seed=0, budgets=BUDGETS):
    generator = np.random.default_rng(seed)
    between = noise * generator.standard_normal(len(budgets))
    return [FinishedRun(n, law(n, ceiling, level + e, slope)) for n, e in zip(budgets, between, strict=True)]


def test_runs_without_noise_give_the_planted_law():
    found = fit_law(runs(0.8, -12, 1.1), ceilings=[0.8])
    estimate = found.predict(930_000)
    assert estimate.value == pytest.approx(law(930_000, 0.8, -12, 1.1), abs=1e-5)
    assert estimate.high - estimate.low < 1e-4
    assert found.images_for(0.5).value == pytest.approx(np.exp((np.log(0.5 / 0.3) + 12) / 1.1), rel=1e-4)
    assert found.images_for(0.9).value == np.inf


def test_with_a_known_ceiling_the_interval_is_that_of_a_linear_regression():
    points = runs(1.0, -12, 1.1, noise=0.1, seed=1)
    x, y = np.log([p.images for p in points]), np.array([np.log(p.share / (1 - p.share)) for p in points])
    fit = stats.linregress(x, y)
    at, n = np.log(930_000), len(x)
    s = np.sqrt(np.square(y - fit.intercept - fit.slope * x).sum() / (n - 2))
    half = stats.t.ppf(0.975, n - 2) * s * np.sqrt(1 + 1 / n + (at - x.mean()) ** 2 / np.square(x - x.mean()).sum())
    middle = fit.intercept + fit.slope * at
    expected = 1 / (1 + np.exp(-np.array([middle - half, middle, middle + half])))
    found = fit_law(points, ceilings=[1.0]).predict(930_000)
    assert [found.low, found.value, found.high] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("ceiling", [0.6, 0.95])
def test_intervals_contain_what_a_longer_run_reaches(ceiling):
    generator = np.random.default_rng(5)
    inside = 0
    for seed in range(200):
        found = fit_law(runs(ceiling, -12, 1.1, noise=0.1, seed=seed)).predict(930_000)
        truth = law(930_000, ceiling, -12 + 0.1 * generator.standard_normal(), 1.1)
        inside += found.low <= truth <= found.high
    assert inside >= 180  # 90%: of 200 intervals of 95%, fewer are a matter of one chance in 1,000


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (runs(0.8, -12, 1.1)[:2], "at least 3"),
        ([FinishedRun(10, 0.0), FinishedRun(20, 0.1), FinishedRun(40, 0.2)], "recovered nothing"),
        ([FinishedRun(10, 0.300), FinishedRun(20, 0.2001), FinishedRun(40, 0.1)], "no law"),
    ],
)
def test_what_cannot_be_fitted_is_refused(points, message):
    with pytest.raises(OptionError, match=message):
        fit_law(points)
