"""Norms of tokens."""

from __future__ import annotations

from raptor.dynamics.curves.group_means import GroupMeans
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch


@measure("norm", of="states", label="mean norm of a token", figure=False)
class Norms(GroupMeans):
    """Mean norm |x_l| at the layers 0..L (Figure 7 of the paper)."""

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        self.add(batch, batch.norms)
