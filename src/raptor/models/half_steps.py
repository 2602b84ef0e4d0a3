"""Attention and MLP half-steps as units of depth: a ViT of L blocks becomes a flow of 2 L steps.

A pre-norm block adds attention to the tokens and then an MLP. With the output projection of the MLP set to zero, a
block does the first half alone; with that of attention set to zero, the second. No block is rewritten, and the two
halves compose to the block exactly. Each half costs as much as the block.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from raptor.core.preprocessing import Size
from raptor.errors import ImageSizeError, UnsupportedModelError
from raptor.models.raptor import CalledBlock, find_output_projections
from raptor.models.teachers.teacher import Parts, Teacher

TOLERANCE = 1e-4  # of a half-step of another kind of block, relative to the largest state


class HalfStep(nn.Module):
    """A block without its attention, or without its MLP.

    Parameters
    ----------
    called
        The block with the function that calls it.
    silenced
        Name in the block of the linear map whose output is left out.
    """

    def __init__(self, called: CalledBlock, silenced: str):
        super().__init__()
        self.called, self.silenced = called, silenced

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the states after this half."""
        linear = self.called.block.get_submodule(self.silenced)
        zeros = {
            f"block.{self.silenced}.{name}": torch.zeros_like(value)
            for name, value in (("weight", linear.weight), ("bias", linear.bias))
            if isinstance(value, Tensor)
        }
        return functional_call(self.called, zeros, (tokens, 0))


class HalfStepModel(nn.Module):
    """A ViT whose layers are half-steps: attention, MLP, attention, MLP, and so on.

    Parameters
    ----------
    teacher
        The model; it is not changed.
    """

    def __init__(self, teacher: Teacher):
        super().__init__()
        self.teacher = teacher
        # So that it has a fingerprint of its own, although the weights are those of the model.
        self.register_buffer("half_steps", torch.tensor(2 * teacher.depth))
        parts, halves = teacher.parts, list[nn.Module]()
        for layer, block in enumerate(parts.blocks):
            names = parts.output_projections or find_output_projections(block, teacher.width)
            if len(names) != 2:
                raise _unsupported(teacher, "the linear maps that end attention and the MLP are not clear")
            called = CalledBlock(block, layer, parts.call)
            halves += [HalfStep(called, names[1]), HalfStep(called, names[0])]
        self.halves = nn.ModuleList(halves)
        self._check()

    @torch.no_grad()
    def _check(self) -> None:
        """Raise an error if two half-steps are not the step, as in blocks whose branches are parallel or normed."""
        like = next(self.teacher.module.parameters())
        tokens = torch.randn(
            1, self.teacher.layout.n_tokens, self.teacher.width, generator=torch.Generator().manual_seed(0)
        ).to(like)
        for layer in range(self.teacher.depth):
            whole = self.teacher.step(tokens, layer)
            composed = self.halves[2 * layer + 1](self.halves[2 * layer](tokens))
            if not torch.allclose(composed, whole, rtol=0, atol=TOLERANCE * float(whole.abs().max())):
                raise _unsupported(self.teacher, "attention and MLP do not add to the tokens one after the other")


def _unsupported(teacher: Teacher, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"{teacher.name} ({teacher.parts.family}) cannot be cut into half-steps: {why}")


def half_step_parts(model: nn.Module, image_size: Size | None) -> Parts:
    """Adapt a model of half-steps."""
    assert isinstance(model, HalfStepModel)
    teacher = model.teacher
    if image_size not in (None, teacher.image_size):
        height, width = teacher.image_size
        raise ImageSizeError(
            f"image size {image_size} is not supported; half-steps need the model's own {height}x{width}"
        )
    return replace(
        teacher.parts,
        family=f"half-steps of {teacher.parts.family}",
        embed=teacher.embed,
        blocks=model.halves,
        call=lambda half, tokens, layer: half(tokens),
        output_projections=None,
        module=model,
    )
