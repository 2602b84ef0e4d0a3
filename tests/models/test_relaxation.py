"""Relaxed tying: starts at the best low-rank approximation of each layer, and at full rank equals the teacher."""

from __future__ import annotations

import pytest
import torch

import raptor
from raptor.core.phases import as_phases
from raptor.models.relaxation import RelaxedBlock
from raptor.models.surrogate import build_raptor, build_surrogate
from vits import FAMILIES, family, pixels

FULL = 10_000  # above every width: clamped to the full rank of each matrix


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_at_full_rank_the_start_is_the_teacher(case):
    teacher = raptor.load_model(case.build())
    relaxed = build_surrogate(teacher, as_phases(f"2-{teacher.depth - 2}"), relax_rank=FULL)
    with torch.no_grad():
        tokens = teacher.embed(pixels(*teacher.image_size))
        wanted, found = (raptor.rollout(flow, tokens).states for flow in (teacher, relaxed))
    assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_the_start_is_the_best_approximation_of_each_layer():
    """Eckart and Young: the error of rank r is the norm of the singular values that are left out."""
    teacher, rank = raptor.load_model(family("vit").build()), 2
    phases = as_phases(f"{teacher.depth}")
    block = build_surrogate(teacher, phases, relax_rank=rank).raptor.blocks[0]
    assert isinstance(block, RelaxedBlock)
    for name, correction in zip(block.names, block.corrections, strict=True):
        own = [layer.get_parameter(name.removeprefix("called.block.")) for layer in teacher.parts.blocks]
        mean = torch.stack(list(own)).mean(dim=0)
        torch.testing.assert_close(block.block.get_parameter(name), mean)
        for layer, weight in enumerate(own):
            left_out = torch.linalg.svdvals(weight - mean)[rank:]
            error = torch.linalg.norm(correction(mean, layer) - weight)
            torch.testing.assert_close(error, left_out.norm(), rtol=1e-4, atol=1e-5)


def test_a_block_that_is_no_copy_of_the_teacher_starts_tied():
    teacher = raptor.load_model(family("vit").build())
    phases = as_phases(f"{teacher.depth}")
    torch.manual_seed(0)
    block = build_surrogate(teacher, phases, "swiglu", relax_rank=2, layer_scale=0.5).raptor.blocks[0]
    tokens = torch.randn(2, 5, teacher.width)
    torch.testing.assert_close(block(tokens, 1), block.block(tokens, 1))
    torch.testing.assert_close(block(tokens, 2), block.block(tokens, 2))


def test_files_without_offsets_are_read():
    """Surrogates of earlier versions had no offsets of biases and norms."""
    teacher = raptor.load_model(family("vit").build())
    phases = as_phases(f"{teacher.depth}")
    old = build_raptor(teacher, phases, relax_rank=2)
    state = {name: value for name, value in old.state_dict().items() if ".offsets." not in name}
    new = build_surrogate(teacher, phases, relax_rank=2).raptor
    new.load_state_dict(state)
    tokens = torch.randn(2, 5, teacher.width)
    torch.testing.assert_close(new.step(tokens, 1), old.step(tokens, 1))
