"""Correlation coefficients with p-values or intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's correlation and its p-value; NaN if either sequence is constant."""
    from scipy.stats import spearmanr

    if min(len(set(one)), len(set(other))) < 2:
        return math.nan, math.nan
    found = spearmanr(one, other)
    return float(found.statistic), float(found.pvalue)


def linear_correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return Pearson's correlation and its 95% interval (Fisher's z); NaN if either sequence is constant."""
    from scipy.stats import pearsonr

    if min(len(set(one)), len(set(other))) < 2:
        return math.nan, math.nan, math.nan
    found = pearsonr(one, other)
    interval = found.confidence_interval()
    return float(found.statistic), float(interval.low), float(interval.high)


def exact_rank_correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's correlation and its exact one-sided p-value over all permutations; for a few pairs."""
    from scipy.stats import permutation_test

    rho, _ = rank_correlation(one, other)
    if math.isnan(rho):
        return rho, rho
    found = permutation_test(
        (list(one),), lambda drawn: rank_correlation(drawn.tolist(), other)[0], permutation_type="pairings",
        alternative="greater", n_resamples=math.inf, vectorized=False,
    )  # fmt: skip
    return rho, float(found.pvalue)
