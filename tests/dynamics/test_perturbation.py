"""Perturbations of toys: what stays, what shrinks by a known rate, and what a perturbation costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from raptor.core import toy
from raptor.dynamics.perturbations.perturb import perturb
from raptor.errors import LayerError, OptionError
from vits import pixels

GAMMA = {group: [0.5] * 9 for group in ("cls", "register", "patch")}


def images(n=12):
    return [pixels(32, 32, batch=n).double()]


class Shrinking(toy.Diagonal):
    """Every token starts along the first feature, which stays; what is off it shrinks by `rate` at every layer."""

    def __init__(self, depth, rate):
        super().__init__(depth, [1.0] + [rate] * 7)

    def embed(self, pixels):
        start = super().embed(pixels)
        return torch.zeros_like(start).index_fill_(-1, torch.tensor([0]), 3.0)


def test_the_identity_keeps_every_perturbation():
    """The angle stays that of the perturbation, and random directions are at right angles on average."""
    found = perturb(toy.Diagonal(4, [1.0] * 64), images(), epsilons=[0.01, 0.5], draws=3)
    angles = found.angles["patch", "patch"].mean()
    for i, layer in enumerate(found.layers):
        after = angles[i, :, : 4 - layer + 1]
        torch.testing.assert_close(after, after[:, :1].expand_as(after))
    assert angles[0, 0, 0].item() == pytest.approx(0.01, rel=0.05)
    assert angles[0, 1, 0].item() == pytest.approx(math.atan(0.5), rel=0.05)
    corrected = found.correction(GAMMA).by_group["patch"]
    slope = corrected.slope
    assert (slope.value[1][0], slope.low[1][0], slope.high[1][0]) == pytest.approx((0, 0, 0), abs=1e-9)
    assert corrected.return_time[1][0] == math.inf
    assert corrected.angle.shape == (4, 2, 5)
    # 1 - cos is eps^2 / 2 for small perturbations at right angles.
    sensitivity = found.sensitivity()
    assert (sensitivity.layers, sensitivity.draws, sensitivity.images) == ([0, 1, 2, 3], 3, 12)
    patch = sensitivity.by_pair["patch->patch"]
    assert patch.over_square[0][0] == pytest.approx(0.5, rel=0.1)
    assert patch.over_epsilon.value[0][0] == pytest.approx(0.5 * 0.01, rel=0.1)
    assert (np.array(patch.over_epsilon.low) <= np.array(patch.over_epsilon.value)).all()
    assert (np.array(patch.over_epsilon.value) <= np.array(patch.over_epsilon.high)).all()


@pytest.mark.parametrize("rate", [0.5, 0.8, 1.25])
def test_what_shrinks_by_a_rate_has_its_logarithm_as_slope(rate):
    found = perturb(Shrinking(6, rate), images(), layers=[0, 3], epsilons=[0.01], draws=2)
    corrected = found.correction(GAMMA).by_group["cls"]
    for row in (0, 1):
        slope = corrected.slope
        assert slope.value[row][0] == pytest.approx(math.log(rate), abs=1e-3)
        assert slope.low[row][0] <= slope.value[row][0] <= slope.high[row][0]
    expected = math.log(0.5) / math.log(rate) if rate < 1 else math.inf
    assert corrected.return_time[0][0] == pytest.approx(expected, abs=0.05)
    # At the end a perturbation of angle a has the angle rate^(L-l) a.
    ends = found.ends["cls", "cls"].mean()[:, 0]
    assert (ends[0] / ends[1]).item() == pytest.approx(rate**6, rel=0.15)


def test_a_contraction_in_closed_form():
    """x -> c + r (x - c): a perturbation by d at layer l is one by r^(L-l) d at the end."""
    flow, given = toy.Contraction(5, 0.6), images(6)
    found = perturb(flow, given, layers=[2], groups=["register"], epsilons=[0.2], draws=1, seed=4)
    state = flow.embed(given[0])
    for layer in range(2):
        state = flow.step(state, layer)
    where = flow.layout.where("register")
    noise = torch.randn(6, 1, *state.shape[1:], generator=torch.Generator().manual_seed(4)).double()[:, 0]
    away = torch.nn.functional.normalize(noise, dim=-1) * state.norm(dim=-1, keepdim=True) * 0.2
    last = 1 + 0.6**3 * (state - 1)
    cosine = torch.cosine_similarity(last + 0.6**3 * away, last, dim=-1)[:, where]
    assert found.ends["register", "register"].mean().item() == pytest.approx(1 - cosine.mean().item(), rel=1e-6)
    assert found.ends["register", "patch"].mean().item() == pytest.approx(0.0, abs=1e-12)  # tokens do not meet here


def test_a_perturbation_costs_the_layers_after_it_and_no_more():
    calls = []

    class Counted(toy.Rotation):
        def step(self, tokens, layer):
            calls.append((layer, len(tokens)))
            return super().step(tokens, layer)

    perturb(Counted([0.1] * 6), images(4), layers=[4], groups=["cls", "patch"], epsilons=[0.1, 0.2], draws=3)
    clean = [(layer, 4) for layer in range(6)]
    assert calls == clean + 2 * [(4, 24), (5, 24)]


def test_directions_do_not_depend_on_the_groups_read_and_repeat():
    one, other = (perturb(toy.Rotation([0.2] * 3), images(), epsilons=[0.1], seed=7) for _ in range(2))
    assert torch.equal(one.ends["patch", "patch"].mean(), other.ends["patch", "patch"].mean())
    assert set(one.ends) == {(a, b) for a in ("cls", "register", "patch") for b in ("cls", "register", "patch")}


def test_mistakes():
    with pytest.raises(LayerError, match="0 to 2"):
        perturb(toy.Rotation([0.1] * 3), images(), layers=[3])
    with pytest.raises(OptionError, match="epsilons"):
        perturb(toy.Rotation([0.1] * 3), images(), epsilons=[0.0])
