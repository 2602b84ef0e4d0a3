"""Tied blocks: exact where nothing is tied, scaled as the paper writes it, of the published size."""

from __future__ import annotations

import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.errors import UnsupportedModelError
from raptor.models.complexity import count_parameters
from raptor.models.raptor import Gated, Raptor, SwiGLUBlock, TeacherBlock, find_output_projections
from vits import FAMILIES, family, pixels


def teacher_block(teacher, layer, **options):
    return TeacherBlock(teacher.parts.blocks[layer], layer, teacher.parts.call, teacher.width, **options)


def scrambled(block, seed=0):
    """Move every parameter off its start, the depth scaling too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return block


@pytest.mark.parametrize("depth_scale", [True, False])
@pytest.mark.parametrize("name", [one.name for one in FAMILIES])
def test_as_many_blocks_as_layers_are_the_teacher_itself(name, depth_scale):
    teacher = raptor.load_model(family(name).build())
    blocks = [teacher_block(teacher, layer, depth_scale=depth_scale) for layer in range(teacher.depth)]
    surrogate = Raptor(Phases((1,) * teacher.depth), blocks)
    tokens = teacher.embed(pixels(32, 32))
    for layer in range(teacher.depth):
        torch.testing.assert_close(surrogate.step(tokens, layer), teacher.step(tokens, layer), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [one.name for one in FAMILIES])
def test_both_branches_are_scaled_and_nothing_else(name):
    # With both branches scaled to nought a pre-norm block is the identity, whatever its family.
    teacher = raptor.load_model(family(name).build())
    block = teacher_block(teacher, 1)
    last = block.depth_scale.t_proj[2]
    with torch.no_grad():
        last.weight.zero_()
        last.bias[: 2 * teacher.width] = -1.0
        tokens = teacher.embed(pixels(32, 32))
        torch.testing.assert_close(block(tokens, 1), tokens)


def blocks_of_both_kinds():
    teacher = raptor.load_model(family("dinov2-registers").build())
    return {
        "swiglu": SwiGLUBlock(32, 4, layer_scale=0.5),
        "gelu": SwiGLUBlock(32, 4, layer_scale=None, activation="gelu"),
        "teacher": teacher_block(teacher, 1),
    }


@pytest.mark.parametrize("kind", ["swiglu", "gelu", "teacher"])
def test_depth_scaling_multiplies_the_outputs_of_both_branches_and_of_the_block(kind):
    # The same block with its factors on activations, as the paper writes it.
    block = scrambled(blocks_of_both_kinds()[kind])
    tokens = torch.randn(6, 21, 32, generator=torch.Generator().manual_seed(1))
    names = block.projections if kind == "teacher" else ("attn.proj", "mlp.2")
    with torch.no_grad():
        attention, mlp, output = block.depth_scale(3)
        ours, other = block(tokens, 3), block(tokens, 2)
        block.depth_scale.t_proj[2].weight.zero_()
        block.depth_scale.t_proj[2].bias.zero_()
        within = block.called.block if kind == "teacher" else block
        for name, factor in zip(names, (attention, mlp), strict=True):
            linear = within.get_submodule(name)
            linear.weight.mul_(factor.flatten()[:, None])
            linear.bias.mul_(factor.flatten())
        torch.testing.assert_close(ours, output * block(tokens, 1))
    assert not torch.allclose(ours, other, atol=1e-3)


@pytest.mark.parametrize("kind", ["swiglu", "gelu", "teacher"])
def test_gradients_reach_every_parameter(kind):
    block = scrambled(blocks_of_both_kinds()[kind])
    tokens = torch.randn(2, 21, 32, generator=torch.Generator().manual_seed(1))
    block(tokens, 2).square().sum().backward()
    # DINOv2's mask token belongs to the embedding; a block has no parameter that does nothing.
    assert all(parameter.grad.abs().max() > 0 for parameter in block.parameters())


def test_the_paper_s_block_has_its_published_size_and_without_a_teacher_s_weights_starts_small():
    block = SwiGLUBlock(768, 12)
    assert count_parameters(block) == 9_490_976
    tokens = torch.randn(1, 5, 768, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(block(tokens, 3), tokens, rtol=0, atol=0.01)


def test_the_gated_mlp_is_its_formula():
    block = scrambled(SwiGLUBlock(16, 2, mlp_ratio=8 / 3))
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    first, last = block.mlp[0], block.mlp[2]
    gate, value = (x @ first.weight.T + first.bias).chunk(2, dim=-1)
    assert gate.shape[-1] == 42
    expected = (gate * torch.sigmoid(gate) * value) @ last.weight.T + last.bias
    torch.testing.assert_close(block.mlp(x), expected)


def test_the_gate_that_trains_has_the_gradients_of_its_formula():
    both = torch.randn(3, 2, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    gated = Gated()
    assert torch.autograd.gradcheck(gated.train(), both)
    trained = gated(both)
    torch.testing.assert_close(trained, gated.eval()(both), rtol=1e-15, atol=0)
    weights = torch.randn(3, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (found,) = torch.autograd.grad(trained, both, weights)
    (expected,) = torch.autograd.grad(gated(both), both, weights)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)


def test_a_raptor_applies_the_block_of_the_phase():
    first, second = (scrambled(SwiGLUBlock(16, 2, layer_scale=1.0), seed) for seed in (0, 1))
    model = Raptor(Phases((2, 1)), [first, second])
    tokens = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(2))
    for layer, block in ((0, first), (1, first), (2, second)):
        torch.testing.assert_close(model.step(tokens, layer), block(tokens, layer + 1))


def test_a_block_whose_branches_cannot_be_told_apart_has_its_output_scaled_alone():
    linear = torch.nn.Linear(8, 8)
    assert find_output_projections(linear, 8) == ()
    block = scrambled(TeacherBlock(linear, 0, lambda block, tokens, layer: block(tokens), 8))
    tokens = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    *_, output = block.depth_scale(5)
    torch.testing.assert_close(block(tokens, 5), output * block.called.block(tokens))


def test_a_block_without_parameters_is_refused():
    with pytest.raises(UnsupportedModelError, match="swiglu"):
        TeacherBlock(torch.nn.Identity(), 0, lambda block, tokens, layer: block(tokens), 8)
