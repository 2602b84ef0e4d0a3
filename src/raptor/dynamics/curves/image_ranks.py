"""Effective ranks of the updates of single images: the other possible reading of Figure 10 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.ranks import ranks
from raptor.dynamics.measures import StateBatch
from raptor.runtime.device import doubled

MOST = 16  # images
KEPT_BYTES = 2**27  # of products of updates that wait for their eigenvalues


@dataclass(frozen=True)
class ImageRanksResult:
    """Mean effective ranks of the updates of single images, at the steps 0..L-1; for groups of several tokens.

    Parameters
    ----------
    image_stable_rank, image_entropy_rank, image_participation_ratio
        The three ranks, as in `ranks`.
    image_ranks_of
        Number of images.
    """

    image_stable_rank: LayerEstimates
    image_entropy_rank: LayerEstimates
    image_participation_ratio: LayerEstimates
    image_ranks_of: int


class ImageRanks:
    """Mean effective ranks of the matrix of updates of one image's tokens; groups of one token have none.

    Parameters
    ----------
    most
        Number of images to use: the first ones.
    """

    def __init__(self, most: int = MOST):
        self.most, self.n, self.noise = most, 0, 0.0
        self.waiting: dict[str, list[Tensor]] = {}
        self.means: dict[str, dict[str, BinnedMean]] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch, until there are enough images."""
        kept = min(batch.n, self.most - self.n)
        self.n += kept
        own = max(0, min(batch.own, kept - batch.first))  # images of this process; at least one is computed
        for group, where in batch.layout.slices.items():
            if kept and batch.layout.counts[group] > 1:
                # One step at a time: copies in double precision of all steps would not fit into a processor's cache.
                moment = torch.stack([_product(update[: max(1, own), where]) for update in batch.updates], dim=1)
                self.noise = (batch.updates[0].shape[-1] * batch.rounding) ** 2
                self.waiting.setdefault(group, []).append(batch.process_group.all_gather(moment[:own]))
        if sum(moment.nbytes for moments in self.waiting.values() for moment in moments) > KEPT_BYTES:
            self._find_ranks()

    def _find_ranks(self) -> None:
        """Add the ranks of the products that are waiting."""
        for group, moments in self.waiting.items():
            for name, values in ranks(torch.cat(moments), self.noise).items():
                self.means.setdefault(name, {}).setdefault(group, BinnedMean()).add(values)
        self.waiting = {}

    def compute(self, seed: int = 0) -> ImageRanksResult | None:
        """Return means over images; None where every group has a single token."""
        self._find_ranks()
        if not self.means:
            return None
        found = {f"image_{name}": LayerEstimates.of(means, seed) for name, means in self.means.items()}
        return ImageRanksResult(**found, image_ranks_of=next(iter(found.values())).n)


def _product(updates: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images size size"]:
    """Return the smaller of the two products of updates with themselves; both have the same nonzero eigenvalues."""
    updates = doubled(updates).cpu()
    return updates @ updates.mT if updates.shape[1] < updates.shape[2] else updates.mT @ updates
