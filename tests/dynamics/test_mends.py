"""Measures that were wrong, or that had no null, each against a closed form or an independent computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from raptor.core import toy
from raptor.core.tokens import TokenLayout
from raptor.dynamics.curves.bends import consecutive_cosines, squared_distances
from raptor.dynamics.curves.ranks import UpdateRanks
from raptor.dynamics.dmd.pooled import fit
from raptor.dynamics.measures import StateBatch, run_measures
from raptor.dynamics.perturbations.mixing import mix, pairs_of
from raptor.dynamics.perturbations.perturb import perturb
from raptor.dynamics.unread import last_layers
from raptor.models.vit import ViT, ViTConfig
from scripted import LAYOUT, Scripted, every, pictures


def test_the_median_of_ten_moduli_is_between_the_two_in_the_middle():
    sizes = torch.tensor([1.1, 1.0, 0.9, 0.8, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    states = torch.randn(10, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert fit(states, sizes[:, None] * states).median_modulus == pytest.approx(0.6)


class Carry(toy.ToyFlow):
    """Every layer adds the same vector, whatever the state: a perturbation is carried along unchanged."""

    def __init__(self):
        super().__init__(6, 16)
        self.added = torch.randn(6, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def step(self, tokens, layer):
        """Add the vector of a layer."""
        return tokens + 2 * self.added[layer].to(tokens)


def test_a_flow_that_carries_perturbations_along_has_the_ratio_one():
    found = perturb(Carry(), [pictures(6).double()], draws=2)
    for group in ("cls", "register", "patch"):
        value, draws = found.final_ratio(group)
        assert value.numpy() == pytest.approx(np.ones((6, 5)), abs=1e-9)
        assert draws.numpy() == pytest.approx(np.ones((1000, 6, 5)), abs=1e-9)
    one = found.correction({group: [1.0] * 7 for group in ("cls", "register", "patch")}).by_group["cls"]
    assert one.passive_slope[0] == pytest.approx(one.slope.value[0])
    assert one.slope.value[0][0] < 0  # the angle shrinks although nothing is corrected
    sensitivity = found.sensitivity().by_pair
    assert np.ravel(sensitivity["cls->cls"].passive) == pytest.approx(
        np.ravel(sensitivity["cls->cls"].over_epsilon.value)
    )
    assert sensitivity["cls->patch"].passive is None


def test_the_ratio_of_a_linear_flow_is_its_growth_across_the_state():
    """All but two features grow by 1.1 a layer: small perturbations at layer l end 1.1 to the power of L - l larger."""
    flow = Scripted(across=every(1.1))
    start = torch.zeros(4, LAYOUT.n_tokens, 32, dtype=torch.float64)
    start[..., 0] = 1
    flow.embed = lambda pixels: start[: len(pixels)]
    found = perturb(flow, [pictures(4).double()], epsilons=(1e-4,), draws=20)
    value = found.final_ratio("patch")[0][:, 0].numpy()
    assert value == pytest.approx([1.1 ** (12 - layer) for layer in range(12)], rel=0.02)  # 30 of 31 directions grow


def test_small_singular_values_of_cls_count_in_the_entropy_rank():
    """They go down to 1e-4 of the largest, which a cut-off on squares at 1e-5 would lose."""
    layout, n, width = TokenLayout(1, 0, (1, 1)), 64, 32
    generator = torch.Generator().manual_seed(0)
    left = torch.linalg.qr(torch.randn(n, width, generator=generator, dtype=torch.float64))[0]
    sizes = torch.logspace(-2, -6, width, dtype=torch.float64)  # small: directions stay close to the first axis
    updates = left * sizes @ torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    before = torch.zeros(n, 1, width, dtype=torch.float64)
    before[..., 0] = 1
    after = torch.nn.functional.normalize(before + updates[:, None], dim=-1)
    measure = UpdateRanks()
    measure.update(StateBatch([before.repeat(1, 2, 1), after.repeat(1, 2, 1)], layout))
    found = measure.compute()
    exact = np.linalg.svd((after - before)[:, 0].numpy(), compute_uv=False)
    shares = exact / exact.sum()
    assert found["entropy_rank"].mean["cls"][0] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-3)


def test_small_singular_values_of_patches_count_in_the_entropy_rank():
    """Moments of many tokens are summed in single precision, which keeps values down to 5e-4 of the largest."""
    layout, n, width = TokenLayout(0, 0, (8, 8)), 16, 32
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    rows = torch.randn(n * 64, width, generator=generator, dtype=torch.float64)
    updates = rows * torch.logspace(-2, -5, width, dtype=torch.float64) @ turn
    before = torch.zeros(n, 64, width)
    before[..., 0] = 1
    after = torch.nn.functional.normalize(before.double() + updates.unflatten(0, (n, 64)), dim=-1).float()
    measure = UpdateRanks()
    measure.update(StateBatch([before, after], layout))
    exact = np.linalg.svd((after - before).flatten(0, 1).double().numpy(), compute_uv=False)
    shares = exact / exact.sum()
    assert exact[-2] / exact[0] < 2e-3  # a cut-off at the width times the rounding error would lose these
    expected = np.exp(-(shares * np.log(shares)).sum())
    assert measure.compute()["entropy_rank"].mean["patch"][0] == pytest.approx(expected, rel=1e-3)


def test_centred_ranks_are_those_of_updates_minus_their_mean():
    flow = Scripted(angle=every(0.2), spread={"cls": 0.3, "register": 0.3, "patch": 0.3})
    pixels = pictures(24).double()
    measure = UpdateRanks()
    run_measures(flow, list(pixels.split(5)), measure)
    found = measure.compute()["centred_stable_rank"].mean["patch"]
    states = raptor.rollout(flow, flow.embed(pixels)).states
    unit = torch.nn.functional.normalize(states, dim=-1)[:, :, LAYOUT.slices["patch"]]
    for step, value in enumerate(found):
        updates = (unit[:, step + 1] - unit[:, step]).flatten(0, 1)
        singular = np.linalg.svd((updates - updates.mean(dim=0)).numpy(), compute_uv=False)
        assert value == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-4)


def vit(pool):
    config = ViTConfig(width=16, depth=3, heads=2, image_size=16, n_register=1, n_classes=3, pool=pool)
    return raptor.load_model(ViT(config))


def test_tokens_that_the_head_does_not_read_end_one_layer_earlier():
    assert last_layers(vit("cls")) == {"cls": 3, "register": 2, "patch": 2}
    assert last_layers(vit("cls+patch")) == {"cls": 3, "register": 2, "patch": 3}
    added = raptor.load_model(vit("cls").module, head=torch.nn.Linear(16, 2))
    assert last_layers(added) == {"cls": 3, "register": 3, "patch": 3}
    assert last_layers(Carry()) == {"cls": 6, "register": 6, "patch": 6}


def test_mixtures_in_a_linear_flow_move_as_at_the_last_layer():
    """A rotation commutes with mixing, so every layer gives what the normalisation alone gives."""
    found = mix(Scripted(angle=every(0.3)), pictures(8).double(), [(0, 1), (2, 3), (4, 7)]).summary()
    assert found.slope.value == pytest.approx([found.slope.value[-1]] * len(found.layers), rel=1e-6)
    assert found.third is None
    assert found.pairs == 3


def test_pairs_are_of_different_classes_and_disjoint():
    label = torch.tensor([0, 0, 0, 1, 1, 2])
    pairs = pairs_of(label, 6)
    assert len({i for pair in pairs for i in pair}) == 2 * len(pairs) == 6
    assert all(label[one] != label[other] for one, other in pairs)
    assert pairs_of(torch.zeros(4, dtype=torch.long), 4) == []
    assert pairs_of(None, 5) == [(0, 1), (2, 3)]


def test_updates_of_a_rotation_turn_by_its_angle():
    states = raptor.rollout(flow := Scripted(angle=every(0.3)), flow.embed(pictures(3).double())).states
    distances = squared_distances(states.unbind(dim=1))
    found = consecutive_cosines(distances, torch.arange(len(distances)))
    assert found.numpy() == pytest.approx(np.full((11, 3, 12), np.cos(0.3)), abs=1e-9)
    found = raptor.measure_dynamics(
        flow, list(pictures(8).double().split(4)), None, raptor.DynamicsOptions(perturbation_images=2, mixing_pairs=1)
    )
    assert found.curves["curvature"].mean["cls"] == pytest.approx([0.3] * 11, abs=1e-6)
    assert min(found.curves["curvature_shuffled"].mean["cls"]) > 0.3
