"""Means over the tokens of a group."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.measures import StateBatch


class GroupMeans:
    """Running means over the tokens of each group, by image and layer: the base of most measures."""

    def __init__(self) -> None:
        self.means: dict[str, BinnedMean] = {}

    def add(self, batch: StateBatch, values: Float[Tensor, "batch layers tokens"]) -> None:
        """Add one value per image, layer (or step) and token.

        Parameters
        ----------
        batch
            The states that the values were computed from.
        values
            Shape (batch, layers, tokens).
        """
        for group, where in batch.layout.slices.items():
            self.means.setdefault(group, BinnedMean()).add(batch.all_gather(values[:, :, where].mean(dim=-1)))

    def compute(self, seed: int = 0) -> LayerEstimates:
        """Return means over images and tokens, with 95% intervals over images."""
        return LayerEstimates.of(self.means, seed)
