"""Ranks of the updates of single images: the other reading of the paper's Figure 10."""

from __future__ import annotations

import torch

from raptor.device import doubled
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.motion import Motion
from raptor.dynamics.updates import ranks
from raptor.resampling import BinnedMean

MOST = 32  # images


class ImageRanks:
    """Mean ranks of the matrix of updates of one image's tokens; groups of one token have none.

    Parameters
    ----------
    most
        Images.
    """

    def __init__(self, most: int = MOST):
        self.most, self.n = most, 0
        self.means: dict[str, dict[str, BinnedMean]] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch, as far as there is need."""
        kept = min(motion.n, self.most - self.n)
        self.n += kept
        own = max(0, min(motion.own, kept - motion.first))  # of this process, and at least one to compute with
        for group, where in motion.layout.slices.items():
            if kept and motion.layout.counts[group] > 1:
                tokens = doubled(torch.stack([update[: max(1, own), where] for update in motion.updates], dim=1)).cpu()
                # The products of tokens and of features have the same values beside zeros; the smaller one is taken.
                few = tokens.shape[2] < tokens.shape[3]
                moment = tokens @ tokens.mT if few else tokens.mT @ tokens
                for name, values in ranks(moment, (tokens.shape[3] * motion.rounding) ** 2).items():
                    self.means.setdefault(name, {}).setdefault(group, BinnedMean()).add(motion.team.whole(values[:own]))

    def result(self, seed: int = 0) -> dict[str, ByLayer]:
        """Return means over images."""
        return {name: ByLayer.of(means, seed) for name, means in self.means.items()}
