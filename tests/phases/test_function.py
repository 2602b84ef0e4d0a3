"""Functional similarity, its closed forms, and whether layers of a phase can stand in for one another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from raptor.core.flow import rollout
from raptor.core.phases import Phases
from raptor.core.toy import Contraction, Diagonal, Rotation, ToyFlow
from raptor.phases.function.interchangeable import contrast_weights, is_interchangeable, null_contrasts
from raptor.phases.function.local import functional_similarity
from recurrent import IMAGES, KINDS, independent, noise_images, random_phases, tied, verdict
from tied import TIED, tied_teacher


class Linear(ToyFlow):
    """x -> A_l x, with one matrix for each phase."""

    def __init__(self, phases, width=6, seed=0):
        super().__init__(phases.depth, width)
        draw = torch.Generator().manual_seed(seed)
        self.maps = [
            torch.eye(width).double() + 0.3 * torch.randn(width, width, generator=draw).double() for _ in phases.lengths
        ]
        self.phases = phases

    def step(self, tokens, layer):
        return tokens @ self.maps[self.phases.block_of(layer + 1)].T.to(tokens)


def pixels(n, seed=0):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).double()


def in_memory(flow, images):
    """Compute both matrices directly: all states at once, in NumPy."""
    states = rollout(flow, flow.embed(images)).states
    own = (states[:, 1:] - states[:, :-1]).numpy()
    cosine, error = np.zeros((2, flow.depth, flow.depth))
    for layer in range(flow.depth):
        for block in range(flow.depth):
            u = (flow.step(states[:, layer], block) - states[:, layer]).numpy()
            v = own[:, layer]
            cosine[layer, block] = np.mean((u * v).sum(-1) / np.linalg.norm(u, axis=-1) / np.linalg.norm(v, axis=-1))
            ratio = np.linalg.norm(u - v, axis=-1) / np.linalg.norm(v, axis=-1)
            error[layer, block] = np.mean(np.sort(ratio, axis=1)[:, (ratio.shape[1] - 1) // 2])
    return cosine, error


def test_it_equals_the_direct_computation():
    flow, images = Linear(Phases((2, 3))), pixels(7)
    found = functional_similarity(flow, images.split(3))
    cosine, error = in_memory(flow, images)
    assert np.allclose(found.update_cosine().numpy(), cosine, atol=1e-6)
    assert np.allclose(found.relative_error().numpy(), error, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_it_does_not_depend_on_the_batch_size(size):
    teacher, images = tied_teacher(), noise_images(6)[0]
    whole = functional_similarity(teacher, [images])
    parts = functional_similarity(teacher, images.split(size))
    for group in whole.groups:
        assert torch.allclose(whole.update_cosine(group), parts.update_cosine(group), atol=1e-5)
        assert torch.allclose(whole.relative_error(group), parts.relative_error(group), atol=1e-5)


def test_blocks_of_a_tied_network_stand_in_for_one_another_exactly():
    found = functional_similarity(tied_teacher(), noise_images(8))
    same = torch.tensor([[TIED.block_of(i) == TIED.block_of(j) for j in range(1, 13)] for i in range(1, 13)])
    assert found.relative_error()[same].max() == 0
    assert found.update_cosine()[same].min() > 1 - 1e-6
    assert found.relative_error()[~same].min() > 0.1


def test_rotations_have_the_cosine_of_their_chords():
    """The update of a rotation by a is a chord at the angle pi/2 + a/2 to the state."""
    angles = [0.1, 0.5, 1.0]
    found = functional_similarity(Rotation(angles), [pixels(3)]).update_cosine()
    wanted = [[np.cos((a - b) / 2) for b in angles] for a in angles]
    assert np.allclose(found.numpy(), wanted, atol=1e-9)


@pytest.mark.parametrize("flow", [Contraction(4, 0.5), Diagonal(4, [0.9, 0.5, 1.3])])
def test_every_layer_of_a_flow_that_repeats_one_map_can_stand_in_for_every_other(flow):
    found = functional_similarity(flow, [pixels(4)])
    assert found.relative_error().max() == 0


def test_the_contrast_is_zero_if_only_distance_counts_and_the_step_between_phases_otherwise():
    phases = Phases((3, 4, 2))
    layers = np.arange(9)
    decay = 0.9 ** np.abs(layers[:, None] - layers[None, :])
    weights = contrast_weights(phases).numpy()
    assert abs(np.sum(weights * decay)) < 1e-12
    of = np.repeat([0, 1, 2], [3, 4, 2])
    assert np.isclose(np.sum(weights * (decay + 0.3 * (of[:, None] == of[None, :]))), 0.3)
    assert contrast_weights(Phases((9,))) is None


def test_the_null_keeps_the_decay_with_distance():
    layers = np.arange(8)
    decay = 0.8 ** np.abs(layers[:, None] - layers[None, :])
    assert np.abs(null_contrasts(decay, 3, "weighted", 2)).max() < 1e-12


@pytest.mark.parametrize("depth", [12, 24])
@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_tied_networks_are_recognised(depth, sigma):
    for seed in range(2):
        phases = random_phases(depth, seed)
        found, test = verdict(tied(depth, phases, sigma, 1000 + seed), seed=seed)
        assert (found, test.held) == (phases, True)


@pytest.mark.parametrize("kind", list(KINDS))
def test_networks_without_phases_are_not_called_interchangeable(kind):
    for seed in range(2):
        assert verdict(KINDS[kind](12, 1000 + seed), seed=seed)[1].held is not True


@pytest.mark.parametrize(("name", "phases"), [("scenes:k2", "7-5"), ("scenes:k3", "5-5-2")])
def test_the_shipped_surrogates_are_recognised(name, phases):
    model = raptor.load_model(name)
    images = raptor.load_images("scenes:train", model, images=16)
    options = raptor.PhasesOptions(by="function", function_images=16)
    found = raptor.find_phases(model, images, options=options, progress=False)
    assert str(found.phases) == phases
    assert found.interchangeable.held is True


def test_one_image_decides_nothing():
    phases = Phases((6, 6))
    measured = functional_similarity(independent(12, 0), noise_images(1))
    assert is_interchangeable(measured, phases).held is None
    assert IMAGES > 1
