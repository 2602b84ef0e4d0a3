"""Relaxed weight tying: a low-rank correction of the tied weights for each layer of a phase (not in the paper).

A tied block is the same map at every layer of its phase, except for depth scaling. A correction of rank r makes each
weight matrix specific to its layer, W_l = W + B_l A_l, with r (inputs + outputs) parameters per layer. B starts at
zero, so that a relaxed block initially equals the tied block.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from raptor.models.old_names import rename_correction, rename_weights


class Correction(nn.Module):
    """Low-rank corrections of one weight matrix, one for each layer of a phase.

    Parameters
    ----------
    weight
        The tied matrix.
    n_layers
        Number of layers of the phase.
    rank
        Rank of each correction.
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"], n_layers: int, rank: int):
        super().__init__()
        outputs, inputs = weight.shape
        self.down = nn.Parameter(weight.new_empty(n_layers, rank, inputs))
        self.up = nn.Parameter(weight.new_zeros(n_layers, outputs, rank))
        nn.init.normal_(self.down, std=inputs**-0.5)

    def forward(self, weight: Float[Tensor, "outputs inputs"], layer: int) -> Float[Tensor, "outputs inputs"]:
        """Return the corrected matrix of a layer, counted from 0 in the phase."""
        return weight + self.up[layer] @ self.down[layer]


class RelaxedBlock(nn.Module):
    """A tied block with corrections of all its weight matrices, packed ones included.

    Parameters
    ----------
    block
        The tied block, called as `block(tokens, target)`.
    span
        Layers of the phase, such as 8, 9, 10.
    rank
        Rank of the corrections.
    """

    def __init__(self, block: nn.Module, span: range, rank: int):
        super().__init__()
        self.block, self.first = block, span[0]
        # The MLP of depth scaling already depends on the layer.
        self.names = [
            name for name, value in block.named_parameters() if value.ndim == 2 and "depth_scale." not in name
        ]
        self.corrections = nn.ModuleList(Correction(block.get_parameter(name), len(span), rank) for name in self.names)
        self.register_load_state_dict_pre_hook(self.rename)

    @staticmethod
    def rename(block: Any, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
        """Translate old parameter names in a state dict, in place."""
        if any(name.startswith(f"{prefix}corrections.") for name in state):
            return
        stems = [f"{prefix}block.{name.removesuffix('.weight')}" for name in block.names]
        rename_weights(state, stems)
        for number, (stem, correction) in enumerate(zip(stems, block.corrections, strict=True)):
            rename_correction(state, stem, f"{prefix}corrections.{number}", correction.state_dict())

    def forward(self, tokens: Float[Tensor, "batch tokens width"], target: int) -> Float[Tensor, "batch tokens width"]:
        """Return the states at the target layer from those at the layer before."""
        layer = target - self.first
        corrected = {
            name: correction(self.block.get_parameter(name), layer)
            for name, correction in zip(self.names, self.corrections, strict=True)
        }
        return functional_call(self.block, corrected, (tokens, target))
