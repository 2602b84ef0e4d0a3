"""A Raptor: k blocks, each applied again and again within its phase, in place of L.

Two kinds of block. `SwiGLUBlock` is the paper's: pre-norm attention and a gated MLP, started at random. `TeacherBlock`
is the teacher's own block class, one copy a phase, started from the phase's own weights; it keeps whatever those know
beside tokens (rotary or relative positions) and costs exactly what they cost. Both are told which layer they make
through `DepthScale`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from raptor.errors import UnsupportedModelError
from raptor.models.depth_scale import DepthScale, Scaled, Target, scaled
from raptor.models.layers import Attention, LayerScale
from raptor.phases import Phases

Tokens = Float[Tensor, "batch tokens width"]


class _Gate(torch.autograd.Function):
    """silu(gate) * value for training: no copy of its halves is kept, and both gradients go into one tensor."""

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        gate, value = both.chunk(2, dim=-1)
        activated = F.silu(gate)
        ctx.save_for_backward(both, activated)
        return activated * value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (both, activated), (gradient,) = ctx.saved_tensors, gradients
        gate, value = both.chunk(2, dim=-1)
        to_both = torch.empty_like(both)
        to_gate, to_value = to_both.chunk(2, dim=-1)
        torch.mul(gradient, activated, out=to_value)
        torch.ops.aten.silu_backward.grad_input(gradient * value, gate, grad_input=to_gate)
        return to_both


class Gated(nn.Module):
    """SwiGLU's middle: silu(gate) * value, the gate being the first half."""

    def forward(self, both: Tensor) -> Tensor:
        """Halve the last axis."""
        if self.training:
            return _Gate.apply(both)
        gate, value = both.chunk(2, dim=-1)
        return F.silu(gate) * value


class SwiGLUBlock(nn.Module):
    """The paper's block; names of parameters follow the released code where they can.

    Parameters
    ----------
    width, heads
        Of the teacher.
    mlp_ratio
        Hidden width of the MLP over d: 4 is the paper's, 8/3 costs what a plain MLP of ratio 4 does.
    layer_scale
        Initial LayerScale (1e-5 as released); None for a block without.
    depth_scale
        Whether the block is told its target layer.
    activation
        `swiglu` or `gelu`; the latter has a plain MLP.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        mlp_ratio: float = 4.0,
        layer_scale: float | None = 1e-5,
        depth_scale: bool = True,
        activation: str = "swiglu",
    ):
        super().__init__()
        hidden = int(mlp_ratio * width)
        middle: tuple[int, nn.Module] = (2 * hidden, Gated()) if activation == "swiglu" else (hidden, nn.GELU())
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ls1 = nn.Identity() if layer_scale is None else LayerScale(width, layer_scale)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, middle[0]), middle[1], nn.Linear(hidden, width))
        self.ls2 = nn.Identity() if layer_scale is None else LayerScale(width, layer_scale)
        self.depth_scale = DepthScale(width) if depth_scale else None

    def forward(self, tokens: Tokens, target: Target) -> Tokens:
        """Go from a layer to the next; samples of one batch may be at different layers."""
        attention, mlp, output = self._factors(tokens, target)
        tokens = tokens + scaled(self.attn.proj, self.attn.mix(self.norm1(tokens)), attention)
        hidden = self.mlp[1](self.mlp[0](self.norm2(tokens)))
        tokens = tokens + scaled(self.mlp[2], hidden, mlp)
        return tokens if output is None else output * tokens

    def _factors(self, tokens: Tokens, target: Target) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return what multiplies attention, the MLP and the output: depth scaling and LayerScale in one."""
        first, second = (
            ls.gamma.view(1, 1, -1) if isinstance(ls, LayerScale) else tokens.new_ones(1, 1, 1)
            for ls in (self.ls1, self.ls2)
        )
        if self.depth_scale is None:
            return first, second, None
        attention, mlp, output = self.depth_scale(target)
        return attention * first, mlp * second, output


def output_projections(block: nn.Module, width: int) -> tuple[str, str]:
    """Name the linear maps by which attention and MLP write to the residual stream.

    The MLP's is the last that comes from another width, attention's the last from the same width.
    """
    linears = {name: m for name, m in block.named_modules() if isinstance(m, nn.Linear) and m.out_features == width}
    attention = [name for name, linear in linears.items() if linear.in_features == width]
    mlp = [name for name, linear in linears.items() if linear.in_features != width]
    if not attention or not mlp:
        raise UnsupportedModelError(
            "the output projections of this teacher's blocks cannot be told, so that they cannot be scaled by depth; "
            "use depth_scale=False, or the kind 'swiglu'"
        )
    return attention[-1], mlp[-1]


class _Called(nn.Module):
    """A block with the way that its teacher runs it."""

    def __init__(self, block: nn.Module, layer: int, call: Callable[[nn.Module, Tensor, int], Tensor]):
        super().__init__()
        self.block, self.layer, self.call = block, layer, call

    def forward(self, tokens: Tensor) -> Tensor:
        return self.call(self.block, tokens, self.layer)

    def train(self, mode: bool = True) -> _Called:
        """Stay in evaluation mode: the dropout and stochastic depth of the teacher's training are not wanted here."""
        return super().train(False)


class TeacherBlock(nn.Module):
    """A copy of the teacher's own block, tied within a phase, with depth scaling that starts at exactly one.

    Parameters
    ----------
    block, layer
        What to copy, and the layer (0..L-1) that the teacher runs it at.
    call
        How the teacher runs a block: `call(block, tokens, layer)`.
    width
        Features of a token.
    depth_scale
        Whether the block is told its target layer.
    """

    def __init__(
        self,
        block: nn.Module,
        layer: int,
        call: Callable[[nn.Module, Tensor, int], Tensor],
        width: int,
        depth_scale: bool = True,
    ):
        super().__init__()
        self.called = _Called(copy.deepcopy(block).requires_grad_(True), layer, call)
        self.depth_scale = DepthScale(width, std=0.0) if depth_scale else None
        self.scaled: tuple[str, ...] = ()
        if depth_scale:
            self.scaled = output_projections(self.called, width)
            for name in self.scaled:
                parent, _, last = name.rpartition(".")
                setattr(self.called.get_submodule(parent), last, Scaled(self.called.get_submodule(name)))

    def forward(self, tokens: Tokens, target: Target) -> Tokens:
        """Go from a layer to the next; samples of one batch may be at different layers."""
        if self.depth_scale is None:
            return self.called(tokens)
        attention, mlp, output = self.depth_scale(target)
        scales = {f"{name}.scale": scale for name, scale in zip(self.scaled, (attention, mlp), strict=True)}
        return output * functional_call(self.called, scales, (tokens,))


class Raptor(nn.Module):
    """k blocks and the phases in which each is applied again and again.

    Parameters
    ----------
    phases
        Which block makes which layer.
    blocks
        One a phase, called as `block(tokens, target)`.
    untied
        A control: each block is applied once, for the last layer of its phase, and the states stand still before
        it. What remains is a network of k layers with the parameters of a Raptor but without its recurrence.

    Attributes
    ----------
    recompute
        Whether gradients keep nothing but the states between blocks, and compute what is inside once more.
    """

    def __init__(self, phases: Phases, blocks: Sequence[nn.Module], untied: bool = False):
        super().__init__()
        if len(blocks) != phases.k:
            raise ValueError(f"{phases.k} phases need {phases.k} blocks, not {len(blocks)}")
        self.phases, self.untied, self.recompute = phases, untied, False
        self.blocks = nn.ModuleList(blocks)
        self.ends = tuple(span[-1] for span in phases.ranges)

    def step(self, tokens: Tokens, layer: int) -> Tokens:
        """Go from `layer` to `layer + 1`."""
        return self.apply_block(self.blocks[self.phases.block_of(layer + 1)], tokens, layer)

    def apply_block(self, block: nn.Module, tokens: Tokens, layer: int) -> Tokens:
        """Make `layer + 1` by a block in place of the own one."""
        if self.untied and layer + 1 not in self.ends:
            return tokens
        return self.call(block, tokens, tokens.new_full((1,), float(layer + 1)))

    def call(self, block: nn.Module, tokens: Tokens, target: Target) -> Tokens:
        """Run a block; what is inside is kept for its gradient, or computed once more."""
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(block, tokens, target, use_reentrant=False, preserve_rng_state=False)
        return block(tokens, target)
