"""A Raptor: k weight-tied blocks in place of L layers, each applied repeatedly within its phase.

There are two kinds of block. `SwiGLUBlock` is the paper's block: pre-norm attention and a gated MLP, with random
initial weights. `TeacherBlock` is a copy of one of the teacher's blocks per phase, with its weights; it keeps rotary or
relative positions and has the same cost. Both depend on the target layer through `DepthScale`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from raptor.core.phases import Phases
from raptor.errors import UnsupportedModelError
from raptor.models.depth_scale import DepthScale, scaled_weights
from raptor.models.layers import Attention, LayerScale
from raptor.models.old_names import rename_weights

Tokens = Float[Tensor, "batch tokens width"]


class _Gate(torch.autograd.Function):
    """silu(gate) * value for training, without copies of the halves and with both gradients in one tensor."""

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
    """The gate of SwiGLU: silu(first half) * second half of the features."""

    def forward(self, both: Tensor) -> Tensor:
        """Map (..., 2 n) to (..., n)."""
        if self.training:
            return _Gate.apply(both)
        gate, value = both.chunk(2, dim=-1)
        return F.silu(gate) * value


class SwiGLUBlock(nn.Module):
    """The paper's block; parameter names follow the released code where possible.

    Parameters
    ----------
    width, heads
        Features per token and attention heads of the teacher.
    mlp_ratio
        Hidden width of the MLP divided by the width. The paper uses 4; 8/3 has the cost of a plain MLP of ratio 4.
    layer_scale
        Initial LayerScale (1e-5 in the released code), or None for a block without LayerScale.
    depth_scale
        Whether to use depth scaling.
    activation
        `swiglu`, or `gelu` for a plain MLP.
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

    def forward(self, tokens: Tokens, target: float) -> Tokens:
        """Return the states at the target layer from those at the layer before."""
        attention, mlp, output = self._factors(tokens, target)
        projection, last = self.attn.proj, cast(nn.Linear, self.mlp[2])
        mixed = self.attn.mix(self.norm1(tokens))
        tokens = tokens + F.linear(mixed, *scaled_weights(projection.weight, projection.bias, attention))
        hidden = self.mlp[1](self.mlp[0](self.norm2(tokens)))
        tokens = tokens + F.linear(hidden, *scaled_weights(last.weight, last.bias, mlp))
        return tokens if output is None else output * tokens

    def _factors(self, tokens: Tokens, target: float) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the factors on attention, the MLP and the output: depth scaling times LayerScale."""
        first, second = (
            ls.gamma.view(1, 1, -1) if isinstance(ls, LayerScale) else tokens.new_ones(1, 1, 1)
            for ls in (self.ls1, self.ls2)
        )
        if self.depth_scale is None:
            return first, second, None
        attention, mlp, output = self.depth_scale(target)
        return attention * first, mlp * second, output


def find_output_projections(block: nn.Module, width: int) -> tuple[str, ...]:
    """Return the names of the linear maps that end attention and the MLP; none if it is not clear which they are.

    The one of the MLP is the last linear map to `width` features from another number of features; the one of attention
    is the last from the same number. An adapter names them in `Parts.output_projections` where this is wrong.
    """
    linears = {name: m for name, m in block.named_modules() if isinstance(m, nn.Linear) and m.out_features == width}
    attention = [name for name, linear in linears.items() if linear.in_features == width]
    mlp = [name for name, linear in linears.items() if linear.in_features != width]
    return (attention[-1], mlp[-1]) if attention and mlp else ()


class CalledBlock(nn.Module):
    """A block with the function that its teacher uses to call it."""

    def __init__(self, block: nn.Module, layer: int | None, call: Callable[[nn.Module, Tensor, int], Tensor]):
        super().__init__()
        self.block, self.layer, self.call = block, layer, call

    def forward(self, tokens: Tensor, target: float) -> Tensor:
        return self.call(self.block, tokens, round(target) - 1 if self.layer is None else self.layer)

    def train(self, mode: bool = True) -> CalledBlock:
        """Stay in evaluation mode, without the dropout and stochastic depth of the teacher's training."""
        return super().train(False)


class TeacherBlock(nn.Module):
    """A copy of a block of the teacher, tied within a phase, with depth scaling that starts at exactly 1.

    Depth scaling replaces parameters during a call and leaves the block's modules as they are. So it works for blocks
    that use weights without calling a module, such as `nn.MultiheadAttention`.

    Parameters
    ----------
    block, layer
        Block to copy, and its index (0..L-1) in the teacher.
    call
        `call(block, tokens, layer)` runs a block, as in `Parts`.
    width
        Features per token.
    depth_scale
        Whether to use depth scaling.
    projections
        Names of the linear maps in the block that end attention and the MLP; None to find them. Without them, only the
        output of the block is scaled.
    """

    def __init__(
        self,
        block: nn.Module,
        layer: int,
        call: Callable[[nn.Module, Tensor, int], Tensor],
        width: int,
        depth_scale: bool = True,
        projections: tuple[str, ...] | None = None,
    ):
        super().__init__()
        self.called = CalledBlock(copy.deepcopy(block).requires_grad_(True), layer, call)
        if not any(True for _ in self.called.parameters()):
            raise UnsupportedModelError(
                "the blocks of this model have no parameters to train; use blocks of kind 'swiglu' or 'gelu'"
            )
        self.depth_scale = DepthScale(width, std=0.0) if depth_scale else None
        self.projections = find_output_projections(block, width) if projections is None else projections
        self.register_load_state_dict_pre_hook(self.rename)

    @staticmethod
    def rename(block: Any, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
        """Translate old parameter names in a state dict, in place."""
        rename_weights(state, [f"{prefix}called.block.{name}" for name in block.projections])

    def forward(self, tokens: Tokens, target: float) -> Tokens:
        """Return the states at the target layer from those at the layer before."""
        if self.depth_scale is None:
            return self.called(tokens, target)
        *branches, output = self.depth_scale(target)
        weights: dict[str, Tensor] = {}
        for name, factor in zip(self.projections, branches, strict=False):
            linear = cast(nn.Linear, self.called.block.get_submodule(name))
            weight, bias = scaled_weights(linear.weight, linear.bias, factor)
            weights[f"block.{name}.weight"] = weight
            if bias is not None:
                weights[f"block.{name}.bias"] = bias
        return output * functional_call(self.called, weights, (tokens, target))


class Raptor(nn.Module):
    """k weight-tied blocks, each applied at every layer of its phase.

    Parameters
    ----------
    phases
        Phases; block i computes the layers of phase i. In a `LayerMap` a block computes several runs of layers.
    blocks
        One block per phase, called as `block(tokens, target)`.
    untied
        A control without recurrence: each block is applied once, for the last layer of its phase, and the states do not
        change before. The result is a network of k layers with the same parameters.

    Attributes
    ----------
    gradient_checkpointing
        Whether to store only the states between blocks for the backward pass and to recompute the rest.
    """

    def __init__(self, phases: Phases, blocks: Sequence[nn.Module], untied: bool = False):
        super().__init__()
        if len(blocks) != phases.k:
            raise ValueError(f"{phases.k} phases need {phases.k} blocks, not {len(blocks)}")
        self.phases, self.untied, self.gradient_checkpointing = phases, untied, False
        self.blocks = nn.ModuleList(blocks)
        self.ends = tuple(span[-1] for span in phases.ranges)

    def step(self, tokens: Tokens, layer: int) -> Tokens:
        """Return the states at `layer + 1` from those at `layer`."""
        return self.apply_block(self.blocks[self.phases.block_of(layer + 1)], tokens, layer)

    def apply_block(self, block: nn.Module, tokens: Tokens, layer: int) -> Tokens:
        """Return the states at `layer + 1`, computed with the given block."""
        if self.untied and layer + 1 not in self.ends:
            return tokens
        return self.call(block, tokens, layer + 1)

    def call(self, block: nn.Module, tokens: Tokens, target: float) -> Tokens:
        """Run a block, with gradient checkpointing if it is turned on."""
        if self.gradient_checkpointing and torch.is_grad_enabled():
            return checkpoint(block, tokens, target, use_reentrant=False, preserve_rng_state=False)
        return block(tokens, target)
