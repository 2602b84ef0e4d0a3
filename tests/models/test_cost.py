"""Parameters and operations of tied blocks in closed form, against counters."""

from __future__ import annotations

import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.models.complexity import count_flops, count_parameters
from raptor.models.surrogate import build_raptor, build_surrogate
from raptor.models.vit import ViT, ViTConfig
from vits import pixels

D, L, RANK = 24, 5, 2
TOKENS = 1 + 2 + 16
PHASES = Phases((3, 2))
NORMS = 4 * D
ATTENTION = 4 * D * D + 4 * D
DEPTH_SCALE = 2 * 16 + (16 + 1) * 3 * D
# Hidden width of an MLP -> its weights and biases: a gate doubles what comes in.
MLP = {"swiglu": lambda h: D * 2 * h + 2 * h + h * D + D, "gelu": lambda h: D * h + h + h * D + D}


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(ViTConfig(depth=L, width=D, heads=2, image_size=32, patch_size=8, n_register=2)))


@pytest.mark.parametrize("kind", ["swiglu", "gelu"])
@pytest.mark.parametrize("ratio", [4.0, 8 / 3])
@pytest.mark.parametrize("layer_scale", [0.1, None])
@pytest.mark.parametrize("depth_scale", [True, False])
def test_parameters(teacher, kind, ratio, layer_scale, depth_scale):
    options = {"mlp_ratio": ratio, "layer_scale": layer_scale, "depth_scale": depth_scale}
    expected = NORMS + ATTENTION + MLP[kind](int(ratio * D)) + 2 * D * (layer_scale is not None)
    expected += DEPTH_SCALE * depth_scale
    assert count_parameters(build_raptor(teacher, PHASES, kind, **options)) == PHASES.k * expected


def test_parameters_of_the_teachers_kind_and_of_corrections(teacher):
    block = NORMS + ATTENTION + MLP["gelu"](4 * D) + DEPTH_SCALE
    assert count_parameters(build_raptor(teacher, PHASES)) == PHASES.k * block
    relaxed = build_raptor(teacher, PHASES, relax_rank=RANK)
    # qkv, projection, both maps of the MLP: inputs and outputs of each, for every layer.
    corrections = RANK * L * ((D + 3 * D) + (D + D) + (D + 4 * D) + (4 * D + D))
    # Norms, and the biases of the same maps, for every layer.
    offsets = L * (NORMS + (3 * D) + D + 4 * D + D)
    assert count_parameters(relaxed) == PHASES.k * block + corrections + offsets


@pytest.mark.parametrize(("kind", "mlp"), [("swiglu", 12), ("gelu", 8), ("teacher", 8)])
def test_operations(teacher, kind, mlp):
    """A product of n x a and a x b is 2 n a b operations; the map of the layer's number costs 2 x 16."""
    embedding = (TOKENS - 3) * 3 * 8 * 8 * D
    block = TOKENS * (4 + mlp) * D * D + 2 * TOKENS * TOKENS * D + 16
    found = count_flops(build_surrogate(teacher, PHASES, kind), pixels(32, 32, batch=1))
    assert found == 2 * (embedding + L * block)
