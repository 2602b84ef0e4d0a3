"""How far the tokens of an image move together (Figure 10 of the paper)."""

from __future__ import annotations

import torch

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch


@measure("coherence", of="steps", label="cosine with the mean update", figure=False)
class Coherence:
    """kappa_l, the mean cosine between the updates of an image's tokens and their mean; for groups of several tokens.

    `floor` has, by group, the value for independent updates: 1 / sqrt(N) for N tokens.
    """

    def __init__(self) -> None:
        self.means: dict[str, BinnedMean] = {}
        self.floor: dict[str, float] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        for group, where in batch.layout.slices.items():
            n = batch.layout.counts[group]
            if n == 1:
                continue
            cosines = []
            for step, update in enumerate(batch.updates):
                tokens = update[:, where]
                mean = tokens.mean(dim=1)
                # The mean of <u_i, m> / |u_i| is <mean of u_i / |u_i|, m>.
                lengths = batch.update_norms[:, step, where].clamp(min=torch.finfo(tokens.dtype).tiny)
                along = torch.einsum("bt,btd->bd", 1 / lengths, tokens) / n
                cosines.append((along * mean).sum(dim=-1) / mean.norm(dim=-1).clamp(min=torch.finfo(mean.dtype).tiny))
            self.means.setdefault(group, BinnedMean()).add(batch.all_gather(torch.stack(cosines, dim=1)))
            self.floor[group] = n**-0.5

    def compute(self, seed: int = 0) -> LayerEstimates:
        """Return means over images."""
        return LayerEstimates.of(self.means, seed)
