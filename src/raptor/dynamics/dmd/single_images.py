"""DMD of single images: one linear map per image."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.dynamics.dmd.pooled import RANK, fit
from raptor.dynamics.measures import StateBatch

MOST = 64  # images


@dataclass(frozen=True)
class ImageModes:
    """Linear maps of single images, for one token group: means over images.

    A map of rank r fits the L steps of one image almost exactly when r is near L. Its error then says nothing, but its
    eigenvalues do.

    Parameters
    ----------
    spectral_radius, median_modulus, one_step_error
        Largest and median modulus of the eigenvalues, and relative error of one step.
    rank
        Mean rank: at most 10, and at most the numerical rank of the image's states.
    n
        Number of images.
    """

    spectral_radius: Estimate[float]
    median_modulus: Estimate[float]
    one_step_error: Estimate[float]
    rank: float
    n: int


class ImageDMD:
    """Fit one map to each of the first images.

    Parameters
    ----------
    rank
        Maximum rank of each map.
    most
        Number of images.
    """

    def __init__(self, rank: int = RANK, most: int = MOST):
        self.rank, self.most, self.n = rank, most, 0
        self.means: dict[str, BinnedMean] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch, until there are enough images."""
        kept = min(batch.n, self.most - self.n)
        self.n += kept
        if not kept:
            return
        for group, means in batch.unit_means.items():
            found = []
            for states in means[:kept]:
                before, after = states[:-1], states[1:]
                modes = fit(before.T, after.T, self.rank, batch.rounding)
                error = (modes.step(before) - after).norm(dim=-1).mean().item()  # of unit states
                found.append([modes.spectral_radius, modes.median_modulus, error, len(modes.eigenvalues)])
            self.means.setdefault(group, BinnedMean()).add(torch.tensor(found, dtype=torch.float64))

    def compute(self, seed: int = 0) -> dict[str, ImageModes]:
        """Return means over images, by token group."""
        results = {}
        for group, mean in self.means.items():
            means = mean.mean().tolist()
            low, high = (end.tolist() for end in mean.interval(seed=seed))
            radius, median, error, rank = (Estimate(*values, mean.n) for values in zip(means, low, high, strict=True))
            results[group] = ImageModes(radius, median, error, rank.value, mean.n)
        return results
