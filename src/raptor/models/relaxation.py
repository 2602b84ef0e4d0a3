"""Relaxed weight tying: each layer of a phase has its own correction of the tied weights (not in the paper).

A tied block is the same map at every layer of its phase, except for depth scaling. A correction of rank r makes each
weight matrix specific to its layer, W_l = W + B_l A_l, with r (inputs + outputs) parameters per layer. Biases, norms
and other vectors get an offset for each layer.

Copies of the teacher's blocks start at the average of the phase, plus the best approximation of rank r of what each
layer has beyond the average. At full rank they equal the teacher. Other blocks start tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from raptor.models.old_names import rename_correction, rename_weights
from raptor.models.raptor import TeacherBlock


class Correction(nn.Module):
    """Low-rank corrections of one weight matrix, one for each layer of a phase.

    Parameters
    ----------
    weight
        The tied matrix.
    n_layers
        Number of layers of the phase.
    rank
        Rank of each correction; at most the full rank of the matrix.
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"], n_layers: int, rank: int):
        super().__init__()
        outputs, inputs = weight.shape
        rank = min(rank, outputs, inputs)
        self.down = nn.Parameter(weight.new_empty(n_layers, rank, inputs))
        self.up = nn.Parameter(weight.new_zeros(n_layers, outputs, rank))
        nn.init.normal_(self.down, std=inputs**-0.5)

    @torch.no_grad()
    def approximate(self, differences: Float[Tensor, "layers outputs inputs"]) -> None:
        """Set each correction to the best approximation of its rank; both factors share the singular values."""
        left, values, right = torch.linalg.svd(differences, full_matrices=False)
        rank = self.down.shape[1]
        root = values[:, :rank].sqrt()
        self.up.copy_(left[:, :, :rank] * root[:, None, :])
        self.down.copy_(root[:, :, None] * right[:, :rank])

    def forward(self, weight: Float[Tensor, "outputs inputs"], layer: int) -> Float[Tensor, "outputs inputs"]:
        """Return the corrected matrix of a layer, counted from 0 in the phase."""
        return weight + self.up[layer] @ self.down[layer]


class RelaxedBlock(nn.Module):
    """A tied block with corrections of all its parameters, packed ones included.

    Parameters
    ----------
    block
        The tied block, called as `block(tokens, target)`.
    span
        Layers of the block, such as 8, 9, 10.
    rank
        Rank of the corrections.
    """

    def __init__(self, block: nn.Module, span: Sequence[int], rank: int):
        super().__init__()
        self.block, self.layers = block, tuple(span)
        if isinstance(block, TeacherBlock):
            block.called.layer = None  # each layer gets the further inputs of its own
        # The MLP of depth scaling already depends on the layer.
        shapes = {name: value for name, value in block.named_parameters() if "depth_scale." not in name}
        self.names = [name for name, value in shapes.items() if value.ndim == 2]
        self.vectors = [name for name in shapes if name not in self.names]
        self.corrections = nn.ModuleList(Correction(shapes[name], len(span), rank) for name in self.names)
        self.offsets = nn.ParameterList(shapes[name].new_zeros(len(span), *shapes[name].shape) for name in self.vectors)
        self.register_load_state_dict_pre_hook(self.rename)

    @torch.no_grad()
    def start_from(self, blocks: Sequence[nn.Module]) -> None:
        """Start at the average of a teacher's blocks, corrected towards each of them.

        Parameters
        ----------
        blocks
            The teacher's blocks of this phase, of the class that the tied block is a copy of.
        """
        assert isinstance(self.block, TeacherBlock)
        for name in (*self.names, *self.vectors):
            own = torch.stack([block.get_parameter(name.removeprefix("called.block.")).detach() for block in blocks])
            tied = self.block.get_parameter(name)
            tied.copy_(own.mean(dim=0))
            if name in self.names:
                correction = self.corrections[self.names.index(name)]
                assert isinstance(correction, Correction)
                correction.approximate(own - tied)
            else:
                self.offsets[self.vectors.index(name)].copy_(own - tied)

    @staticmethod
    def rename(block: Any, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
        """Translate the parameters of older versions in a state dict, in place."""
        for number, offset in enumerate(block.offsets):
            state.setdefault(f"{prefix}offsets.{number}", torch.zeros_like(offset))
        if any(name.startswith(f"{prefix}corrections.") for name in state):
            return
        stems = [f"{prefix}block.{name.removesuffix('.weight')}" for name in block.names]
        rename_weights(state, stems)
        for number, (stem, correction) in enumerate(zip(stems, block.corrections, strict=True)):
            rename_correction(state, stem, f"{prefix}corrections.{number}", correction.state_dict())

    def forward(
        self, tokens: Float[Tensor, "batch tokens width"], target: float
    ) -> Float[Tensor, "batch tokens width"]:
        """Return the states at the target layer from those at the layer before."""
        # The nearest layer of the block, where the depth is elastic and the target lies between layers.
        away = [abs(layer - target) for layer in self.layers]
        layer = away.index(min(away))  # in a form that compiles: a key function would break the graph
        corrected = {
            name: correction(self.block.get_parameter(name), layer)
            for name, correction in zip(self.names, self.corrections, strict=True)
        }
        for name, offset in zip(self.vectors, self.offsets, strict=True):
            corrected[name] = self.block.get_parameter(name) + offset[layer]
        return functional_call(self.block, corrected, (tokens, target))
