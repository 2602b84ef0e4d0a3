"""Claims on sensitivity: what chance may give is not told as a finding."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from scipy.stats import spearmanr

from raptor.dynamics.perturbation import SHOWN
from raptor.dynamics_claims import _decays

RISING = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
FALLING = RISING[::-1]
NEARLY = [3.0, 5.0, 4.0, 2.0, 3.5, 2.5]


@pytest.mark.parametrize(
    ("cls", "patch", "held"),
    [(RISING, FALLING, True), (RISING, RISING, False), (FALLING, FALLING, False), (RISING, NEARLY, None)],
    ids=["falls", "rises", "cls is not late", "by chance"],
)
def test_a_trend_must_be_more_than_chance(cls, patch, held):
    ends = {"cls": torch.tensor(cls)[:, None], "patch": torch.tensor(patch)[:, None]}
    pushed = SimpleNamespace(epsilons=[SHOWN], sensitivity=lambda pair: {"over_square": ends[pair[0]]})
    _, found, evidence = _decays(SimpleNamespace(pushed=pushed, modes=ends))
    assert found is held
    trend = spearmanr(range(6), patch)
    assert f"patch {trend.statistic:.2f} (patch: p = {trend.pvalue:.3f})" in evidence
