"""How alike the states of an image's tokens are."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch

MOST = 64  # images


@measure("state_coherence", of="states", label="cosine with the mean state", column=None, figure=False)
class StateCoherence:
    """The mean cosine between the states of an image's tokens and their mean; for groups of several tokens.

    Tokens that are alike get updates that are alike, whatever the layer: this is what coherence is compared with.
    """

    def __init__(self) -> None:
        self.n = 0
        self.means: dict[str, BinnedMean] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch, until there are enough images."""
        kept = min(batch.n, MOST - self.n)
        self.n += max(kept, 0)
        own = max(0, min(batch.own, kept - batch.first))  # images of this process; at least one is computed
        for group, where in batch.layout.slices.items():
            if kept > 0 and batch.layout.counts[group] > 1:
                unit, mean = (
                    torch.stack([layer[: max(1, own), where].mean(dim=1) for layer in layers], dim=1)
                    for layers in (batch.directions, batch.states)
                )
                along = (unit * normalize(mean, dim=-1)).sum(dim=-1)
                self.means.setdefault(group, BinnedMean()).add(batch.process_group.all_gather(along[:own]))

    def compute(self, seed: int = 0) -> LayerEstimates:
        """Return means over images."""
        return LayerEstimates.of(self.means, seed)
