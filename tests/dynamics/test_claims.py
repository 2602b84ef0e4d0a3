"""The table of claims: verdicts, corrections and nulls; toy flows that satisfy or violate each claim by "
"construction."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

import raptor
from raptor.core.estimate import Estimate
from raptor.dynamics.claims.claim import RULES, Finding, holm, judge
from raptor.dynamics.claims.evidence import bootstrapped
from raptor.dynamics.claims.rotation import RotationNull, rotate, rotated
from raptor.dynamics.claims.spectra import fitted
from raptor.dynamics.claims.statistics import later_is_larger
from raptor.dynamics.claims.table import ORDER
from raptor.dynamics.dmd.pooled import fit
from raptor.dynamics.measures import run_measures
from scripted import LAYOUT, Attractors, Decays, Scripted, Updates, every, pictures

OPTIONS = raptor.DynamicsOptions(perturbation_images=8, lyapunov_images=1, mixing_pairs=12)
EARLY, MIDDLE, LATE = [0.25] * 4 + [0.02] * 8, [0.02] * 4 + [0.25] * 4 + [0.02] * 4, [0.02] * 8 + [0.25] * 4


def groups(cls, register, patch):
    """Return one schedule per token group."""
    return {"cls": cls, "register": register, "patch": patch}


TOYS = {
    "norms": (Scripted(growth=every(1.15)), Scripted(growth=every(0.97))),
    "s-shape": (Scripted(angle=every(MIDDLE)), Scripted(angle=every(LATE))),
    "order": (Scripted(angle=groups(LATE, EARLY, MIDDLE)), Scripted(angle=groups(EARLY, LATE, MIDDLE))),
    "basins": (Attractors(), Scripted(angle=every(0.1))),
    "self-correction": (Attractors(), Scripted(angle=every(0.1))),
    "late-cls": (Scripted(angle=groups(LATE, EARLY, MIDDLE)), Scripted(angle=every(0.1))),
    "registers": (
        Scripted(angle=groups([0.2] * 12, [0.05] * 12, [0.2] * 12), spread=groups(0.3, 0.1, 0.3)),
        Scripted(angle=groups([0.2] * 12, [0.3] * 12, [0.2] * 12), spread=groups(0.3, 0.5, 0.3)),
    ),
    "phases": (
        Scripted(angle=every([0.1, *[0.03] * 3, 0.6, *[0.08] * 3, 0.6, *[0.03] * 3])),
        Scripted(angle=every([0.02 * (i + 1) for i in range(12)])),
    ),
    "sensitivity": (
        Scripted(across=groups([0.8] * 8 + [1.0] * 4, [1.0] * 12, [1.1] * 12)),
        Scripted(across=groups([1.1] * 12, [1.0] * 12, [0.9] * 12)),
    ),
    "rank": (Updates(rank=[32] * 4 + [12] * 4 + [4] * 4), Updates(rank=[4] * 4 + [12] * 4 + [32] * 4)),
    "coherence": (Updates(shared=[0.0] * 4 + [0.3] * 4 + [0.7] * 4), Updates(shared=[0.6] * 4 + [0.3] * 4 + [0.1] * 4)),
    "disc": (Scripted(angle=every(0.1)), Scripted(angle=every(1.0))),
    "memory": (Decays(groups(0.99, 0.75, 0.4)), Decays(groups(0.4, 0.75, 0.99))),
    "spectra": (
        Decays(groups(0.9, 0.9, 0.9), groups(30, 12, 4)),
        Decays(groups(0.9, 0.9, 0.9), groups(4, 12, 30)),
    ),
}
QUICK = ("self-correction", True)  # the long suite has the others


def test_there_is_a_toy_for_every_claim():
    assert set(TOYS) == set(RULES) == set(ORDER)


@pytest.mark.parametrize(
    ("name", "satisfied"),
    [
        pytest.param(
            name,
            satisfied,
            marks=[] if (name, satisfied) == QUICK else pytest.mark.long,
            id=f"{name}-{'satisfied' if satisfied else 'violated'}",
        )
        for name in TOYS
        for satisfied in (True, False)
    ],
)
def test_a_toy_that_was_built_for_a_claim_is_judged_as_built(name, satisfied):
    flow = TOYS[name][not satisfied]
    found = raptor.measure_dynamics(flow, list(pictures().split(8)), 3, OPTIONS, progress=False)
    claim = next(one for one in found.claims if one.name == name)
    assert claim.held is satisfied, (claim.effect, claim.evidence)


def test_holm():
    """The classic example: sorted p-values times 4, 3, 2, 1, never falling."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("low", "high", "p", "held", "beyond"),
    [
        (0.6, 0.9, 0.001, True, True),
        (0.6, 0.9, 0.2, True, False),
        (0.4, 0.9, 0.001, None, None),
        (0.1, 0.4, 0.001, False, None),
    ],
)
def test_a_claim_is_judged_by_its_interval_and_its_null_by_p(low, high, p, held, beyond):
    """The smallest effect of interest of `norms` is 0.5."""
    (claim,) = judge({"norms": Finding("", Estimate((low + high) / 2, low, high, 9), 0.3, p, 0.001)})
    assert (claim.held, claim.beyond_null) == (held, beyond)
    assert claim.p_adjusted == pytest.approx(p)


@pytest.mark.parametrize(("null", "beyond"), [(0.3, True), (0.7, False)])
def test_where_no_small_p_is_possible_the_interval_decides(null, beyond):
    (claim,) = judge({"norms": Finding("", Estimate(0.8, 0.6, 0.9, 9), null, 0.1, 0.1)})
    assert claim.held is True
    assert claim.beyond_null is beyond


def test_one_image_decides_nothing():
    """All resamples of one image are the same, so that their interval would have no width."""
    effects = [bootstrapped(torch.tensor(2.0), torch.full((9,), 2.0), n) for n in (1, 2)]
    assert [judge({"norms": Finding("", effect)})[0].held for effect in effects] == [None, True]


def test_a_claim_that_cannot_be_tested_is_inconclusive():
    (claim,) = judge({"norms": Finding("no tokens")})
    assert claim.held is None
    assert claim.effect is None
    assert claim.p_adjusted is None


def test_a_rotation_is_orthogonal_and_mixes_all_features():
    for width in (7, 8):
        axes = torch.eye(width, dtype=torch.float64)[None, :, None, None]
        for matrix in rotate(axes, 3, torch.Generator().manual_seed(0))[:, :, 0, 0]:
            assert (matrix @ matrix.T).numpy() == pytest.approx(np.eye(width), abs=1e-12)
            assert (matrix.abs() > 1e-6).all()


def test_rotated_trajectories_keep_the_sizes_of_updates_and_their_products_at_a_layer():
    flow, null = Scripted(angle=every(0.2), growth=every(1.1)), RotationNull()
    run_measures(flow, [pictures(6).double()], null)
    tokens, _ = null.measured
    assert tokens["patch"].shape == (1, 6, 13, 4, 32)
    others, means = next(null.draws(2))
    for group, states in tokens.items():
        for other in others[group]:
            own, theirs = states[0].diff(dim=1), other.diff(dim=1)
            products = [torch.einsum("altd,bltd->ablt", one, one) for one in (own, theirs)]
            torch.testing.assert_close(products[1], products[0])
            torch.testing.assert_close(other[:, 0], states[0, :, 0])
    assert means["patch"].shape == (2, 6, 13, 1, 32)
    assert LAYOUT.counts["patch"] == 9


def test_spectra_from_products_are_those_of_the_fit():
    states = torch.randn(1, 5, 7, 1, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = torch.nn.functional.normalize(states[0, :, :, 0], dim=-1)
    exact = fit(unit[:, :-1].flatten(0, 1).T, unit[:, 1:].flatten(0, 1).T)
    values, singular = fitted({"cls": states})["cls"]
    assert np.sort(values[0].abs().numpy()) == pytest.approx(np.sort(exact.eigenvalues.abs().numpy()), abs=1e-9)
    assert singular[0, :24].numpy() == pytest.approx(exact.singular.numpy(), abs=1e-7)


def test_under_the_null_p_is_uniform():
    """Random walks with independent steps are as likely as their rotations: p-values of any statistic are uniform."""
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(200):
        walk = torch.randn(3, 9, 2, 16, generator=generator, dtype=torch.float64).cumsum(dim=1)
        own = walk[:, -1].norm(dim=-1).mean()
        draws = rotated(walk, 39, generator)[:, :, -1].norm(dim=-1).mean(dim=(1, 2))
        found.append((1 + int((draws >= own).sum())) / 40)
    assert kstest(np.array(found) - 0.5 / 40, "uniform").pvalue > 0.001


def test_permutations_of_steps():
    """Nine steps in threes have 1,680 arrangements, of which only one has the largest last and the least first."""
    values = torch.arange(9.0)
    found = later_is_larger(values, 3, 3)
    assert found.p == found.smallest == pytest.approx(1 / (math.comb(9, 3) * math.comb(6, 3)))
    means = [np.mean(last) - np.mean(first) for first, last in _halves(range(9))]
    assert found.upper == pytest.approx(np.quantile(means, 0.95))
    assert later_is_larger(-values, 3, 3).p == pytest.approx(1.0)
    drawn = later_is_larger(torch.arange(12.0), 4, 4)
    assert (drawn.p, drawn.smallest) == pytest.approx((1e-4, 1e-4))
    assert later_is_larger(values[:1], 1, 1) is None


def _halves(values):
    """Yield all choices of three first and three last values."""
    for last in itertools.combinations(values, 3):
        rest = [one for one in values if one not in last]
        yield from ((first, last) for first in itertools.combinations(rest, 3))
