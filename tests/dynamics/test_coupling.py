"""Coupling of Jacobians: one for tied linear layers, little for independent ones, and derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from raptor.core import toy
from raptor.core.phases import Phases
from raptor.dynamics.coupling import coupled, coupling, update_jacobian
from raptor.models.vit import ViT, ViTConfig
from scripted import pictures


class Linear(toy.ToyFlow):
    """Every layer adds a linear map of the token; layers of a phase share theirs."""

    def __init__(self, phases):
        super().__init__(phases.depth, 32)
        generator = torch.Generator().manual_seed(0)
        self.maps = torch.randn(phases.k, 32, 32, generator=generator, dtype=torch.float64) / 32**0.5
        self.phases = phases

    def step(self, tokens, layer):
        """Add the map of a layer's phase."""
        return tokens + 0.1 * tokens @ self.maps[self.phases.block_of(layer + 1)].to(tokens)


def test_tied_linear_layers_are_coupled_wholly_and_others_hardly():
    phases = Phases((3, 2))
    found = coupling(Linear(phases), [pictures(2).double()], phases)
    for one in found.values():
        assert one.within.value == pytest.approx(1.0, abs=1e-9)
        assert one.across.value == pytest.approx(0.0, abs=0.2)
        assert np.diagonal(one.matrix) == pytest.approx(np.ones(5))
        assert one.n == 2
    assert coupling(Linear(phases), [pictures(1).double()], None)["cls"].within is None
    assert coupling(Linear(Phases((2,))), [pictures(1).double()], Phases((2,)))["cls"].across is None


def test_no_map_is_coupled_more_than_wholly():
    jacobians = torch.randn(4, 12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = coupled(jacobians, vectors=12)
    assert float(found.max()) <= 1 + 1e-9  # the nuclear norm is the largest trace that rotations reach
    assert torch.diagonal(found).numpy() == pytest.approx(np.ones(4))


def test_the_jacobian_is_the_limit_of_differences():
    torch.manual_seed(0)
    teacher = raptor.load_model(ViT(ViTConfig(image_size=16, depth=2, width=8, heads=2, n_register=1)).double().eval())
    state = torch.randn(1, teacher.layout.n_tokens, 8, dtype=torch.float64)
    found = update_jacobian(teacher, state, 1, 2)
    with torch.no_grad():
        for feature in range(8):
            moved = []
            for sign in (1, -1):
                changed = state.clone()
                changed[0, 2, feature] += sign * 1e-5
                moved.append(teacher.step(changed, 1)[0, 2] - changed[0, 2])
            assert found[:, feature].numpy() == pytest.approx(((moved[0] - moved[1]) / 2e-5).numpy(), abs=1e-7)
