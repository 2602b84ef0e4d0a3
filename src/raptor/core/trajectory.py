"""A trajectory: the states of all tokens at consecutive layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.tokens import TokenLayout
from raptor.errors import LayerError, LayoutError


@dataclass(frozen=True)
class Trajectory:
    """States of a batch of images at the layers `first_layer`, `first_layer + 1`, ...

    Parameters
    ----------
    states
        (batch, layers, tokens, width), before the final norm.
    layout
        Positions of the token groups.
    first_layer
        The layer of `states[:, 0]`; 0 is the embedding.
    """

    states: Float[Tensor, "batch layers tokens width"]
    layout: TokenLayout
    first_layer: int = 0

    def __post_init__(self) -> None:
        if self.states.shape[2] != self.layout.n_tokens:
            raise LayoutError(
                f"states have {self.states.shape[2]} tokens, but {self.layout} has {self.layout.n_tokens}"
            )

    @property
    def last_layer(self) -> int:
        """The layer of `states[:, -1]`."""
        return self.first_layer + self.states.shape[1] - 1

    def at(self, layer: int) -> Float[Tensor, "batch tokens width"]:
        """Return the states at one layer; layer 0 is the embedding."""
        if not self.first_layer <= layer <= self.last_layer:
            raise LayerError(
                f"layer {layer} is outside {self.first_layer}..{self.last_layer}, the layers of this trajectory"
            )
        return self.states[:, layer - self.first_layer]

    def group(self, name: str) -> Float[Tensor, "batch layers group width"]:
        """Return the states of one token group."""
        return self.states[:, :, self.layout.where(name)]

    def groups(self) -> dict[str, Float[Tensor, "batch layers group width"]]:
        """Return the states of every group that the model has."""
        return {name: self.group(name) for name in self.layout.slices}

    def directions(self) -> Float[Tensor, "batch layers tokens width"]:
        """Return x / |x|, the states on the unit sphere."""
        return torch.nn.functional.normalize(self.states, dim=-1)

    def updates(self) -> Float[Tensor, "batch steps tokens width"]:
        """Return the angular updates: differences of directions between consecutive layers."""
        return self.directions().diff(dim=1)
