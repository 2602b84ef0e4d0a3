"""Skill and the R2 of updates: against their definitions in memory, and where their answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.load import load_model
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig

PHASES = Phases((2, 3))
ANGLES = [0.1, 0.4, 0.2, 0.3, 0.25]
NEW = ("skill", "phase_skill", "update_r2")


def images(n=11, dtype=torch.float64):
    return torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=dtype)


def flows():
    return raptor.toy.Rotation(ANGLES), raptor.toy.Rotation([0.12, 0.35, 0.2, 0.3, 0.4])


def ratio(errors, whole):
    return 1 - (errors**2).sum() / (whole**2).sum()


def in_memory(teacher, surrogate, pixels, phases, where):
    """Compute the three measures with NumPy, from all states at once: name -> layers 1..L."""
    y, s = (raptor.rollout(flow, flow.embed(pixels)).states.double() for flow in (teacher, surrogate))
    steps = [surrogate.step(y[:, layer].to(pixels), layer).double() for layer in range(teacher.depth)]
    y, s, steps = y[:, :, where].numpy(), s[:, :, where].numpy(), [one[:, where].numpy() for one in steps]
    found = {name: [] for name in NEW}
    for layer in range(1, teacher.depth + 1):
        start = phases.ranges[phases.block_of(layer)][0] - 1
        update, ours = y[:, layer] - y[:, layer - 1], steps[layer - 1] - y[:, layer - 1]
        found["skill"].append(ratio(y[:, layer] - s[:, layer], y[:, layer] - y[:, 0]))
        found["phase_skill"].append(ratio(y[:, layer] - s[:, layer], y[:, layer] - y[:, start]))
        found["update_r2"].append(ratio(update - ours, update - update.mean(axis=0)))
    return found


@pytest.mark.parametrize("group", ["cls", "register", "patch", "all"])
def test_they_equal_their_definitions(group):
    teacher, surrogate = flows()
    where = slice(None) if group == "all" else teacher.layout.where(group)
    expected = in_memory(teacher, surrogate, images(), PHASES, where)
    for size in (1, 4, 11):
        found = trajectory_fidelity(teacher, surrogate, images().split(size), PHASES)
        for name in NEW:
            np.testing.assert_allclose(found[name].mean[group], expected[name], atol=1e-9)


def test_single_precision_and_the_batch_size_change_nothing_that_shows():
    torch.manual_seed(0)
    teacher = load_model(ViT(ViTConfig(image_size=16, patch_size=4, depth=4, width=16, heads=2, n_register=1)))
    surrogate = build_surrogate(teacher, Phases((1, 3)))
    pixels = images(40, torch.float32)
    with torch.no_grad():
        expected = in_memory(teacher, surrogate, pixels, Phases((1, 3)), slice(None))
    for size in (1, 7, 40):
        found = trajectory_fidelity(teacher, surrogate, pixels.split(size), Phases((1, 3)), draws=2)
        for name in NEW:
            np.testing.assert_allclose(found[name].mean["all"], expected[name], atol=1e-5)


def test_the_identity_has_no_skill_and_a_perfect_surrogate_all_of_it():
    teacher = flows()[0]
    still = trajectory_fidelity(teacher, raptor.toy.Rotation([0.0] * 5), [images()], PHASES)
    np.testing.assert_allclose(still["skill"].mean["all"], 0, atol=1e-12)
    assert max(still["phase_skill"].mean["all"][2:]) < 0  # it holds layer 0, not the input of the second phase
    assert max(still["update_r2"].mean["all"]) <= 0  # worse than the mean update
    perfect = trajectory_fidelity(teacher, teacher, [images()], PHASES)
    for name in NEW:
        np.testing.assert_allclose(perfect[name].mean["all"], 1, atol=1e-12)
        np.testing.assert_allclose(perfect[name].low["all"], 1, atol=1e-12)


def test_half_the_error_leaves_a_quarter_of_what_is_missing():
    """A surrogate that is half way between layer 0 and the teacher has a skill of 3/4, and updates likewise."""
    teacher = raptor.toy.Contraction(4, 0.5)
    errors = {}
    for share in (1.0, 0.5):

        class Behind(raptor.toy.Contraction):
            def step(self, tokens, layer, share=share):
                return super().step(tokens, layer) + share * (tokens - super().step(tokens, layer))

        found = trajectory_fidelity(teacher, Behind(4, 0.5), [images()], Phases((1, 1, 1, 1)))
        errors[share] = 1 - np.array(found["update_r2"].mean["patch"])
        assert found["skill"].mean["patch"][0] == pytest.approx(1 - share**2)
    np.testing.assert_allclose(errors[0.5], errors[1.0] / 4)


def test_states_that_carry_themselves_along_have_a_high_r2_but_no_updates():
    """A flow that moves little, and a surrogate that does not move: R2 near 1, no skill and no updates."""
    teacher, still = raptor.toy.Rotation([0.01] * 5), raptor.toy.Rotation([0.0] * 5)
    found = trajectory_fidelity(teacher, still, [images()], PHASES)
    assert min(found["r2"].mean["patch"]) > 0.8
    assert max(found["skill"].mean["patch"]) < 1e-9
    assert max(found["update_r2"].mean["patch"]) < 1e-9


def test_updates_can_be_left_out():
    found = trajectory_fidelity(*flows(), [images()], PHASES, updates=False)
    assert "update_r2" not in found
    assert found["skill"].mean == trajectory_fidelity(*flows(), [images()], PHASES)["skill"].mean


def test_the_first_step_is_not_computed_twice():
    teacher, surrogate = flows()
    steps = []

    class Counted(raptor.toy.Rotation):
        def step(self, tokens, layer):
            steps.append(layer)
            return super().step(tokens, layer)

    trajectory_fidelity(teacher, Counted(surrogate.angles), [images()], PHASES)
    assert sorted(steps) == [0, 1, 1, 2, 2, 3, 3, 4, 4]
