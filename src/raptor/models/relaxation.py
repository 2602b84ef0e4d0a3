"""Relaxed weight tying: a low-rank correction of the tied weights for each layer of a phase (not in the paper).

A tied block is the same map at every layer of its phase, except for depth scaling. A correction of rank r makes each
linear map specific to its layer, W_l = W + B_l A_l, with r (inputs + outputs) parameters per layer. B starts at zero,
so that a relaxed block initially equals the tied block.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call


class Relaxed(nn.Module):
    """A linear map with a low-rank correction for each of `n_layers` layers.

    Parameters
    ----------
    linear
        The tied linear map.
    n_layers
        Number of layers of the phase.
    rank
        Rank of each correction.
    """

    layer: Tensor

    def __init__(self, linear: nn.Linear, n_layers: int, rank: int):
        super().__init__()
        self.linear = linear
        like = linear.weight
        self.down = nn.Parameter(like.new_empty(n_layers, rank, linear.in_features))
        self.up = nn.Parameter(like.new_zeros(n_layers, linear.out_features, rank))
        nn.init.normal_(self.down, std=linear.in_features**-0.5)
        # Index of the layer in the phase, for each sample; `functional_call` replaces it.
        self.register_buffer("layer", torch.zeros(1, dtype=torch.long), persistent=False)

    def forward(self, x: Float[Tensor, "batch *between inputs"]) -> Float[Tensor, "batch *between outputs"]:
        """Apply the linear map of each sample's layer."""
        low = x.flatten(1, -2) @ self.down[self.layer].mT
        return self.linear(x) + (low @ self.up[self.layer].mT).view(*x.shape[:-1], -1)


class RelaxedBlock(nn.Module):
    """A tied block with corrections of all its linear maps.

    Parameters
    ----------
    block
        The tied block, called as `block(tokens, target)`.
    span
        Layers of the phase, such as 8, 9, 10.
    rank
        Rank of the corrections.
    tokens
        States of two images in the teacher's shape, on which the block is run once to find the linear maps it calls.
    """

    def __init__(self, block: nn.Module, span: range, rank: int, tokens: Float[Tensor, "two tokens width"]):
        super().__init__()
        self.block, self.first = block, span[0]
        self.relaxed = called_linears(block, tokens, span[0])
        for name in self.relaxed:
            parent, _, leaf = name.rpartition(".")
            linear = block.get_submodule(name)
            assert isinstance(linear, nn.Linear)
            setattr(block.get_submodule(parent), leaf, Relaxed(linear, len(span), rank))

    def forward(
        self, tokens: Float[Tensor, "batch tokens width"], target: Float[Tensor, " targets"]
    ) -> Float[Tensor, "batch tokens width"]:
        """Return the states at the target layer from those at the layer before; targets may differ by sample."""
        layer = target.long() - self.first
        return functional_call(self.block, {f"{name}.layer": layer for name in self.relaxed}, (tokens, target))


@torch.no_grad()
def called_linears(block: nn.Module, tokens: Float[Tensor, "two tokens width"], layer: int) -> tuple[str, ...]:
    """Return the names of the linear maps that a block calls; some libraries use weights without calling the module.

    The MLP of depth scaling, which already depends on the layer, is left out.
    """
    called: dict[str, None] = {}
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: called.setdefault(name))
        for name, module in block.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("depth_scale.")
    ]
    # One target per sample: a shared scale would be multiplied into the weights without calling the map.
    block(tokens, tokens.new_full((len(tokens),), float(layer)))
    for hook in hooks:
        hook.remove()
    return tuple(called)
