"""Exponents and fixed points of maps that have them in closed form."""

from __future__ import annotations

import math

import pytest
import torch

import raptor
from raptor.core import toy
from raptor.core.phases import Phases
from raptor.core.tokens import TokenLayout
from raptor.dynamics.fixed_points import iterate_last_step
from raptor.dynamics.lyapunov import lyapunov_exponents
from raptor.models.vit import ViT, ViTConfig
from vits import pixels

ONE = TokenLayout(0, 0, (1, 1))


class Diagonal(toy.Diagonal):
    """One token, which starts along the first feature."""

    def __init__(self, depth, eigenvalues):
        super().__init__(depth, eigenvalues, ONE)

    def embed(self, pixels):
        start = torch.zeros(len(pixels), 1, self.width, dtype=pixels.dtype)
        start[..., 0] = 2.0
        return start


def test_a_diagonal_map_at_its_first_axis():
    """Differences along axis i grow by lambda_i / lambda_1 a layer."""
    values = [1.5, 1.2, -0.9, 0.5, 0.1]
    found = lyapunov_exponents(
        Diagonal(6, values), [pixels(8, 8, batch=3).double()], Phases((4, 2)), vectors=8, iterations=60, tolerance=0
    )
    expected = sorted((math.log(abs(value / 1.5)) for value in values[1:]), reverse=True)
    for phase in found.mean.value:
        assert phase[:4] == pytest.approx(expected, abs=1e-4)
        assert len(phase) == 4
    assert found.n == 3
    assert found.mean.low[0] == pytest.approx(found.mean.high[0])


def test_rotations_stretch_nothing():
    found = lyapunov_exponents(toy.Rotation([0.3] * 4), [pixels(32, 32, batch=2).double()], Phases((2, 2)), vectors=5)
    for phase in found.mean.value:
        assert phase == pytest.approx([0.0] * 5, abs=1e-6)


def test_singular_values_are_those_of_the_whole_jacobian():
    torch.manual_seed(0)
    teacher = raptor.load_model(ViT(ViTConfig(image_size=8, patch_size=4, depth=3, width=8, heads=2, n_register=0)))
    teacher.module.double()
    image = pixels(8, 8, batch=1).double()
    found = lyapunov_exponents(teacher, [image], Phases((3,)), vectors=4, iterations=80, tolerance=0)
    with torch.no_grad():
        state = teacher.embed(image)
    norms = state.norm(dim=-1, keepdim=True)

    def directions(unit):
        moved = torch.nn.functional.normalize(unit, dim=-1) * norms
        for layer in range(3):
            moved = teacher.step(moved, layer)
        return torch.nn.functional.normalize(moved, dim=-1)

    jacobian = torch.autograd.functional.jacobian(directions, state / norms).reshape(5 * 8, 5 * 8)
    expected = torch.linalg.svdvals(jacobian)[:4].log() / 3
    assert found.mean.value[0] == pytest.approx(expected.tolist(), abs=1e-4)


def test_iterations_stop_when_the_exponents_have_converged_and_say_so():
    flow, image = Diagonal(6, [1.5, 1.2, -0.9, 0.5, 0.1]), [pixels(8, 8, batch=3).double()]
    found = lyapunov_exponents(flow, image, Phases((4, 2)), vectors=8)
    expected = sorted((math.log(abs(value / 1.5)) for value in (1.2, -0.9, 0.5, 0.1)), reverse=True)
    assert found.mean.value[0] == pytest.approx(expected, abs=0.01)
    assert (found.converged, found.iterations < 12) == (True, True)
    short = lyapunov_exponents(flow, image, Phases((4, 2)), vectors=3, iterations=1, tolerance=0)
    assert (short.converged, short.iterations) == (False, 1)


def test_a_contraction_comes_to_rest_at_its_rate():
    flow = toy.Contraction(4, 0.7)
    found = iterate_last_step(flow, [pixels(32, 32, batch=6).double()], beyond=30)
    for group in flow.layout.slices:
        assert found.rate[group] == pytest.approx(0.7, abs=0.01)
        first = found.converged_layer[group]
        assert found.speed.mean[group][first] < 1e-3 <= found.speed.mean[group][first - 1]
        assert len(found.speed.mean[group]) == 30


def test_a_rotation_never_does():
    found = iterate_last_step(toy.Rotation([0.2] * 4), [pixels(32, 32, batch=3).double()], beyond=10)
    assert found.converged_layer["patch"] is None
    assert found.rate["patch"] == pytest.approx(1.0)
    assert found.from_last["patch"] == pytest.approx(math.cos(10 * 0.2), abs=1e-6)
    assert found.speed.mean["patch"] == pytest.approx([0.2] * 10)


def test_a_surrogate_goes_on_by_its_last_block():
    surrogate = raptor.load_model("scenes:k2")
    images = raptor.load_images("scenes:test", surrogate, images=4, batch_size=4)
    found = iterate_last_step(surrogate, images, beyond=3)
    assert {len(values) for values in found.speed.mean.values()} == {3}
    assert all(0 < value <= 1 for value in found.from_last.values())
