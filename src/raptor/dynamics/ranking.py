"""Does one thing rise with another?"""

from __future__ import annotations

import math
from collections.abc import Sequence


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's correlation and its p-value; no numbers where either is constant."""
    from scipy.stats import spearmanr

    if min(len(set(one)), len(set(other))) < 2:
        return math.nan, math.nan
    found = spearmanr(one, other)
    return float(found.statistic), float(found.pvalue)
