"""Relaxed tying: a low-rank correction of the tied weights for each layer of a phase.

Beyond the paper. A tied block is the same map at every layer of its phase but for three scales; a correction of rank r
gives each of its linear maps something of its own at each layer, W_l = W + B_l A_l, for r (inputs + outputs) parameters
a layer. B starts at zero, so that a relaxed block starts as the tied one.
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
        The tied map.
    n_layers
        Of the phase.
    rank
        Of each correction.
    """

    layer: Tensor

    def __init__(self, linear: nn.Linear, n_layers: int, rank: int):
        super().__init__()
        self.linear = linear
        like = linear.weight
        self.down = nn.Parameter(like.new_empty(n_layers, rank, linear.in_features))
        self.up = nn.Parameter(like.new_zeros(n_layers, linear.out_features, rank))
        nn.init.normal_(self.down, std=linear.in_features**-0.5)
        # The layer in the phase of each sample, 0-based; a call replaces it.
        self.register_buffer("layer", torch.zeros(1, dtype=torch.long), persistent=False)

    def forward(self, x: Float[Tensor, "batch *between inputs"]) -> Float[Tensor, "batch *between outputs"]:
        """Apply each sample's own map."""
        low = x.flatten(1, -2) @ self.down[self.layer].mT
        return self.linear(x) + (low @ self.up[self.layer].mT).view(*x.shape[:-1], -1)


class RelaxedBlock(nn.Module):
    """A tied block of either kind, all of whose linear maps are relaxed.

    Parameters
    ----------
    block
        Called as `block(tokens, target)`.
    span
        The layers that it makes, such as 8, 9, 10.
    rank
        Of the corrections.
    tokens
        Of two images, in the teacher's shape: the block is run once on them, to see which linear maps it calls.
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
        """Go from a layer to the next; samples of one batch may be at different layers."""
        layer = target.long() - self.first
        return functional_call(self.block, {f"{name}.layer": layer for name in self.relaxed}, (tokens, target))


@torch.no_grad()
def called_linears(block: nn.Module, tokens: Float[Tensor, "two tokens width"], layer: int) -> tuple[str, ...]:
    """Name the linear maps that a block calls; some libraries use the weights of one without calling it.

    The map from a layer's number to its scales is left out: it knows its layer already.
    """
    called: dict[str, None] = {}
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: called.setdefault(name))
        for name, module in block.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("depth_scale.")
    ]
    # A target for each sample: a scale that all share would go into the weights of a map that is then not called.
    block(tokens, tokens.new_full((len(tokens),), float(layer)))
    for hook in hooks:
        hook.remove()
    return tuple(called)
