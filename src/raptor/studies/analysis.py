"""The analysis of studies: hypotheses with a smallest effect of interest, intervals over teachers, and power.

A teacher is one observation: students of the same teacher are averaged first, because they are no independent evidence
on what made it. In a balanced design, that gives the estimate of a mixed model with the teacher as random effect, which
stands beside it (`mixed_difference`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raptor.core.estimate import Estimate
from raptor.studies.registry import Claim

LEVEL = 0.95  # of intervals
POWER = 0.8  # share of simulations in which an effect is detected
SIMULATIONS = 20_000
LEAST_TEACHERS = 3  # of a mixed model: fewer say next to nothing about the variance between them


@dataclass(frozen=True)
class Hypothesis:
    """What a study tests; declared in its module before anything is run.

    Parameters
    ----------
    text
        The claim. A larger effect is evidence for it.
    smallest
        The smallest effect of interest: if the effect is smaller, the claim does not hold.
    effect
        What the effect is.
    """

    text: str
    smallest: float
    effect: str

    def judge(self, effect: Estimate[float], evidence: str = "", mixed: Estimate[float] | None = None) -> Claim:
        """Return the verdict that follows from the interval of the effect.

        The claim does not hold if the whole interval is below the smallest effect of interest. Otherwise, it holds if
        the whole interval is above 0. Otherwise, or without an interval, the result is inconclusive. The mixed model
        stands beside it and decides nothing.
        """
        held = False if effect.high < self.smallest else True if effect.low > 0 else None
        text = f"{self.effect}: {written(effect)}, smallest effect of interest {self.smallest:g}"
        return Claim(self.text, held, f"{text}. {evidence}" if evidence else text, effect, self.smallest, mixed)


def mean_interval(values: Sequence[float]) -> Estimate[float]:
    """Return the mean over teachers with its t-interval; NaN where there is none, and values that are NaN are left out.

    Parameters
    ----------
    values
        One number per teacher.
    """
    known = _known(values)
    n = len(known)
    value = float(known.mean()) if n else math.nan
    return _interval(value, float(known.var(ddof=1)) / n if n > 1 else math.nan, n - 1, n)


def difference_interval(treated: Sequence[float], control: Sequence[float]) -> Estimate[float]:
    """Return the difference of the means of two sets of teachers, with the t-interval of equal variances.

    Parameters
    ----------
    treated, control
        One number per teacher; the control is subtracted.
    """
    one, other = _known(treated), _known(control)
    if not len(one) or not len(other):
        return Estimate(math.nan, math.nan, math.nan, len(one) + len(other))
    free = len(one) + len(other) - 2
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in (one, other))
    variance = squares / free * (1 / len(one) + 1 / len(other)) if free else math.nan
    return _interval(float(one.mean() - other.mean()), variance, free, len(one) + len(other))


def mixed_difference(
    treated: Sequence[tuple[int, float]], control: Sequence[tuple[int, float]]
) -> Estimate[float] | None:
    """Return the difference of two sets of observations in a mixed model with the seed of the teacher as random effect.

    The model is fitted by restricted maximum likelihood; its interval is Wald's, with a normal quantile, so it is
    too narrow for a few teachers. Without statsmodels, or with fewer than three teachers, there is none.

    Parameters
    ----------
    treated, control
        The teacher of each observation, and its value; the control is subtracted. A teacher may have several.
    """
    rows = [(teacher, value, kind) for kind, own in enumerate((control, treated)) for teacher, value in own]
    rows = [row for row in rows if not math.isnan(row[1])]
    teachers, kinds = {row[0] for row in rows}, {row[2] for row in rows}
    if len(teachers) < LEAST_TEACHERS or len(kinds) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from statsmodels.regression.mixed_linear_model import MixedLM
        except ImportError:
            return None
        warnings.simplefilter("ignore")  # again: the import turns on some, as for a variance of 0
        groups, values, kind = (np.array(column) for column in zip(*rows, strict=True))
        try:
            fitted = MixedLM(values, np.stack([np.ones(len(kind)), kind], axis=1), groups=groups).fit(reml=True)
            value, half = float(fitted.fe_params[1]), _normal_quantile() * float(fitted.bse_fe[1])
        except (np.linalg.LinAlgError, ValueError):  # all values of a kind are the same
            return None
    return Estimate(value, value - half, value + half, len(rows)) if math.isfinite(half) else None


def pooled_deviation(*groups: Sequence[float]) -> float:
    """Return the standard deviation of teachers within groups; NaN where no group has two."""
    known = [_known(group) for group in groups]
    free = sum(max(0, len(own) - 1) for own in known)
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in known if len(own))
    return math.sqrt(squares / free) if free else math.nan


def smallest_detected(
    deviation: float, n: int, power: float = POWER, simulations: int = SIMULATIONS, seed: int = 0
) -> float:
    """Return the smallest difference of two groups whose interval is above 0 in a share `power` of simulations.

    A simulated experiment detects every effect above its own threshold: the half-width of its interval less the
    difference that chance gave it. So the answer is a quantile of the thresholds.

    Parameters
    ----------
    deviation
        Measured standard deviation of teachers within a group.
    n
        Number of teachers of each group.
    power
        Share of the simulations.
    simulations, seed
        Number of simulated experiments, and their seed.
    """
    if n < 2 or math.isnan(deviation):
        return math.nan
    drawn = np.random.default_rng(seed).normal(scale=deviation, size=(simulations, 2, n))
    difference = drawn[:, 0].mean(axis=1) - drawn[:, 1].mean(axis=1)
    error = np.sqrt(drawn.var(axis=2, ddof=1).sum(axis=1) / n)
    return float(np.quantile(_quantile(2 * n - 2) * error - difference, power))


def teachers_needed(deviation: float, effect: float, most: int = 100) -> int | None:
    """Return the number of teachers of each group with which an effect is detected in 80% of simulations.

    Parameters
    ----------
    deviation
        Measured standard deviation of teachers within a group.
    effect
        The effect.
    most
        Largest number that is tried; None is returned if it is not enough.
    """
    tried = range(2, most + 1)
    return next((n for n in tried if smallest_detected(deviation, n, simulations=4000) <= effect), None)


def written(estimate: Estimate[float], digits: int = 3) -> str:
    """Return a value with its interval as text."""
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}], n = {estimate.n}"


def format_p(p: float) -> str:
    """Return a p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def _known(values: Sequence[float]) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=float)
    return found[~np.isnan(found)]


def _interval(value: float, variance: float, free: int, n: int) -> Estimate[float]:
    if free < 1:
        return Estimate(value, math.nan, math.nan, n)
    half = _quantile(free) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, n)


def _normal_quantile() -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + LEVEL) / 2))


def _quantile(free: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(free, (1 + LEVEL) / 2))
