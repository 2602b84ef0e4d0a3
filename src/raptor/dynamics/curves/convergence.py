"""Convergence of directions towards the last layer."""

from __future__ import annotations

import torch

from raptor.core.bootstrap import percentile_interval
from raptor.core.estimate import Estimate
from raptor.dynamics.curves.group_means import GroupMeans
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch

CONVERGED = 0.9  # gamma above which a token group counts as converged


@measure("gamma", of="states", label="cosine with the last layer", figure=False)
class Convergence(GroupMeans):
    """gamma_l, the cosine between the layers l and L, at the layers 0..L (Figure 6 of the paper, right).

    For tokens that the model's head does not read at layer L, it is the cosine with layer L - 1.
    """

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        last = batch.directions[-1]
        if len(set(batch.last.values())) > 1:
            last = last.clone()
            for group, where in batch.layout.slices.items():
                last[:, where] = batch.directions[batch.last[group]][:, where]
        self.add(batch, torch.stack([(state * last).sum(dim=-1) for state in batch.directions], dim=1))

    def converged_layer(self, seed: int = 0) -> dict[str, Estimate[int | float]]:
        """Return, by token group, the first layer whose mean gamma is above 0.9."""
        layers: dict[str, Estimate[int | float]] = {}
        for group, mean in self.means.items():
            first = (mean.resample(seed=seed) > CONVERGED).int().argmax(dim=-1).double()
            low, high = percentile_interval(first)
            value = int((mean.mean() > CONVERGED).int().argmax())
            layers[group] = Estimate(value, low.item(), high.item(), mean.n)
        return layers
