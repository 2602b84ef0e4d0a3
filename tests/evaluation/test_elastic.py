"""Elastic depth: a surrogate in another number of steps."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import raptor
from raptor.core.phases import Phases
from raptor.errors import OptionError
from raptor.evaluation.elastic.measure import elastic_depths
from raptor.models.elastic import ElasticModel, scaled_phases, target_layers
from raptor.models.pretrained import with_teacher
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from round_trip import scrambled

SMALL = ViTConfig(image_size=16, patch_size=4, depth=4, width=16, heads=2, n_register=2, n_classes=5)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 40))
def test_steps_are_shared_in_proportion(lengths, more):
    phases = Phases(tuple(lengths))
    steps = phases.k + more
    found = scaled_phases(phases, steps)
    assert (found.depth, found.k) == (steps, phases.k)
    for length, n in zip(phases.lengths, found.lengths, strict=True):
        assert n == 1 or abs(n - steps * length / phases.depth) < phases.k
    assert scaled_phases(phases, 3 * phases.depth).lengths == tuple(3 * length for length in lengths)
    targets = target_layers(phases, found)
    assert targets[-1][1] == phases.depth
    assert [layer for _, layer in targets] == sorted(layer for _, layer in targets)


def surrogate(kind="teacher", **block):
    torch.manual_seed(0)
    return scrambled(build_surrogate(raptor.load_model(ViT(SMALL)), Phases((3, 1)), kind, **block)).eval()


@pytest.mark.parametrize("block", [{}, {"kind": "swiglu", "layer_scale": 0.1}, {"relax_rank": 2}])
def test_nothing_changes_at_the_trained_number_of_steps(block):
    flow = surrogate(**block)
    elastic = raptor.load_model(ElasticModel(flow, 4))
    tokens = torch.randn(2, flow.layout.n_tokens, flow.width)
    with torch.no_grad():
        assert torch.equal(raptor.rollout(elastic, tokens).states, raptor.rollout(flow, tokens).states)


@pytest.mark.parametrize("depth_scale", [True, False])
def test_other_numbers_of_steps_apply_the_blocks_that_often(depth_scale):
    flow = surrogate(depth_scale=depth_scale)
    elastic = raptor.load_model(ElasticModel(flow, Phases((6, 3))))
    tokens = torch.randn(2, flow.layout.n_tokens, flow.width)
    first, second = flow.raptor.blocks
    with torch.no_grad():
        states = [tokens]
        for target in (0.5, 1, 1.5, 2, 2.5, 3):
            states.append(first(states[-1], target))
        for target in (3 + 1 / 3, 3 + 2 / 3, 4):
            states.append(second(states[-1], target))
        torch.testing.assert_close(raptor.rollout(elastic, tokens).states, torch.stack(states, dim=1))


def test_the_measures_are_those_of_fidelity_at_the_trained_number_of_steps():
    saved = raptor.load_model("scenes:k3")
    teacher = raptor.load_model("scenes")
    flow = with_teacher(saved.module, teacher)
    images = raptor.load_images("scenes:test", teacher, images=24)
    whole = raptor.fidelity(
        flow, images, progress=False, options=raptor.FidelityOptions(linear_images=0, elastic=[6, 12, 24])
    )
    assert list(whole.elastic) == [6, 12, 24]
    own = whole.elastic[12]
    for name in ("r2", "cosine", "relative_epsilon"):
        assert getattr(own, name).value == pytest.approx(whole.by_layer[name].at("all", -1).value, abs=1e-6)
    assert own.top1.value == pytest.approx(whole.surrogate_top1.value)
    assert whole.elastic[6].r2.value < own.r2.value
    assert str(whole.elastic[24].steps) == "10-10-4"


def test_in_commands(call, tmp_path):
    code, out, _ = call(
        "fidelity", "scenes:k2", "--images", 8, "--linear-images", 0, "--elastic", "6,12", "--device", "cpu",
        "--out", tmp_path, "--json", "--quiet",
    )  # fmt: skip
    result = json.loads(out)
    assert code == 0
    assert {steps: one["steps"] for steps, one in result["elastic"].items()}["12"] == result["phases"]
    code, out, _ = call("inspect", "elastic:scenes:k2@6", "--device", "cpu", "--json")
    assert (code, json.loads(out)["layers"]) == (0, 6)
    for arguments, text in (
        (("inspect", "elastic:scenes:k2@0"), "too few"),
        (("inspect", "elastic:scenes:k2"), "elastic:SURROGATE@STEPS"),
        (("inspect", "elastic:scenes@6"), "elastic:SURROGATE@STEPS"),
        (("inspect", "elastic:scenes:k2@3-3-3"), "3 blocks"),
        (("fidelity", "scenes:k2", "--elastic", "1", "--images", 4), "too few"),
        (("fidelity", "scenes:k2", "--elastic", "many"), "--elastic takes numbers"),
    ):
        code, out, err = call(*arguments, "--device", "cpu", "--quiet")
        assert (code, err.count("\n"), text in err) == (2, 1, True), err


def test_a_surrogate_without_recurrence_has_one_depth():
    with pytest.raises(OptionError, match="applied once each"):
        ElasticModel(surrogate(untied=True), 8)


def test_steps_are_checked_before_anything_is_measured():
    flow = surrogate()
    with pytest.raises(OptionError, match="too few"):
        elastic_depths(flow, [torch.randn(2, 3, 16, 16)], [1])
