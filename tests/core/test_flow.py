"""Rollout, stitching and the toy flows against their closed forms."""

from __future__ import annotations

import math

import pytest
import torch

import raptor
from raptor import Phases, TokenLayout
from raptor.core import toy
from raptor.core.flow import last_state, layers_of
from raptor.errors import LayerError, LayoutError
from vits import pixels

TOYS = [
    toy.Rotation([0.1] * 5),
    toy.Rotation([0.1, 0.5, 0.01, 0.2]),
    toy.Contraction(4, 0.5),
    toy.Diagonal(4, [1.0, 0.9, -0.5, 2.0]),
    toy.Planted(toy.phase_similarity(Phases.parse("3-2"))),
]


def tokens_of(flow, dtype=torch.float64):
    return flow.embed(pixels(32, 32).to(dtype))


def cosines(trajectory):
    directions = trajectory.directions()
    return torch.einsum("bltd,bmtd->btlm", directions, directions)


@pytest.mark.parametrize("flow", TOYS, ids=lambda flow: type(flow).__name__)
def test_toys_are_depth_flows(flow):
    assert isinstance(flow, raptor.DepthFlow)
    trajectory = raptor.rollout(flow, tokens_of(flow))
    for layer in range(flow.depth):
        assert torch.equal(flow.step(trajectory.at(layer).contiguous(), layer), trajectory.at(layer + 1))
    assert torch.equal(flow.readout(trajectory.at(1)), trajectory.at(1))


def test_embeddings_of_different_images_differ_in_every_token():
    tokens = tokens_of(TOYS[0])
    assert (tokens[0] - tokens[1]).norm(dim=-1).min() > 1e-3
    assert torch.pdist(tokens[0]).min() > 1e-3


def test_rotation_is_a_great_circle():
    angles = [0.1, 0.5, 0.01, 0.2]
    flow = toy.Rotation(angles, width=6)
    trajectory = raptor.rollout(flow, tokens_of(flow))
    position = torch.tensor([0.0, *angles], dtype=torch.float64).cumsum(0)
    expected = torch.cos(position[:, None] - position[None, :])
    torch.testing.assert_close(cosines(trajectory), expected.expand(2, flow.layout.n_tokens, 5, 5))
    norms = trajectory.states.norm(dim=-1)
    torch.testing.assert_close(norms, norms[:, :1].expand_as(norms))


def test_contraction_shrinks_a_perturbation_by_its_rate():
    flow = toy.Contraction(5, 0.6)
    tokens = tokens_of(flow)
    moved = raptor.rollout(flow, tokens + 1e-3, start=2).at(5)
    still = raptor.rollout(flow, tokens, start=2).at(5)
    torch.testing.assert_close(moved - still, torch.full_like(tokens, 1e-3 * 0.6**3))


def test_diagonal_flow_is_a_power():
    flow = toy.Diagonal(4, [1.0, 0.9, -0.5, 2.0])
    tokens = tokens_of(flow)
    powers = torch.tensor([1.0, 0.9, -0.5, 2.0], dtype=torch.float64) ** 4
    torch.testing.assert_close(raptor.rollout(flow, tokens).at(4), tokens * powers)


@pytest.mark.parametrize("text", ["3-2", "4-4-4", "1-5-2", "6"])
def test_planted_phases_have_exactly_their_similarity(text):
    similarity = toy.phase_similarity(Phases.parse(text), within=0.9, between=0.3)
    flow = toy.Planted(similarity)
    measured = cosines(raptor.rollout(flow, tokens_of(flow)))
    torch.testing.assert_close(measured, similarity.expand_as(measured))


def test_planted_similarity_by_hand():
    expected = [[1.0, 0.4, 0.4, 0.4], [0.4, 1.0, 0.95, 0.4], [0.4, 0.95, 1.0, 0.4], [0.4, 0.4, 0.4, 1.0]]
    assert toy.phase_similarity(Phases.parse("2-1")).tolist() == expected


def test_rollout_between_any_two_layers():
    flow = toy.Rotation([0.1, 0.5, 0.01, 0.2])
    whole = raptor.rollout(flow, tokens_of(flow))
    for start in range(5):
        for stop in range(start, 5):
            part = raptor.rollout(flow, whole.at(start), start, stop)
            assert (part.first_layer, part.last_layer) == (start, stop)
            assert torch.equal(part.states, whole.states[:, start : stop + 1])


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 6), (6, 6)])
def test_impossible_rollouts_are_refused(start, stop):
    with pytest.raises(LayerError, match=r"<= 5"):
        raptor.rollout(TOYS[0], tokens_of(TOYS[0]), start, stop)


def test_a_callback_sees_every_state_and_nothing_else_is_kept():
    flow = toy.Rotation([0.1, 0.5, 0.01, 0.2])
    whole = raptor.rollout(flow, tokens_of(flow))
    seen = {}
    last = raptor.rollout(flow, tokens_of(flow), on_state=seen.__setitem__)
    assert list(seen) == [0, 1, 2, 3, 4]
    assert all(torch.equal(state, whole.at(layer)) for layer, state in seen.items())
    assert (last.first_layer, last.last_layer) == (4, 4)
    assert torch.equal(last.states, whole.states[:, -1:])
    assert torch.equal(last_state(flow, whole.at(1), 1, 3), whole.at(3))


def test_streaming_computes_each_step_once_and_only_when_asked():
    calls = []

    class Counting(toy.Rotation):
        def step(self, tokens, layer):
            calls.append(layer)
            return super().step(tokens, layer)

    flow = Counting([0.1] * 5)
    states = layers_of(flow, tokens_of(flow), start=2)
    assert next(states)[0] == 2
    assert calls == []
    assert [layer for layer, _ in states] == [3, 4, 5]
    assert calls == [2, 3, 4]


@pytest.mark.parametrize("at", [0, 1, 3, 4])
def test_stitched_flow_is_the_first_then_the_second(at):
    """Rotations commute, so the angle at the end is the sum of both parts."""
    first, second = toy.Rotation([0.1] * 4), toy.Rotation([0.7] * 4)
    flow = raptor.stitch(first, second, at)
    assert isinstance(flow, raptor.DepthFlow)
    trajectory = raptor.rollout(flow, flow.embed(pixels(32, 32).double()))
    angle = cosines(trajectory)[..., 0, -1].acos()
    torch.testing.assert_close(angle, torch.full_like(angle, 0.1 * at + 0.7 * (4 - at)))


def test_flows_that_do_not_fit_are_not_stitched():
    flow = toy.Rotation([0.1] * 4)
    with pytest.raises(LayoutError, match="same layout"):
        raptor.stitch(flow, toy.Rotation([0.1] * 4, layout=TokenLayout(0, 0, (2, 2))), 2)
    with pytest.raises(LayerError, match=r"layer 4.*layers 0 to 3"):
        raptor.stitch(flow, toy.Rotation([0.1] * 3), 4)


def test_float32_keeps_small_angles():
    flow = toy.Rotation([1e-3])
    states = raptor.rollout(flow, tokens_of(flow, torch.float32)).states
    chord = (states[:, 1] - states[:, 0]).norm(dim=-1) / states[:, 0].norm(dim=-1)
    torch.testing.assert_close(chord, torch.full_like(chord, 2 * math.sin(5e-4)), rtol=1e-4, atol=0)
