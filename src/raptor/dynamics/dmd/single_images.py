"""DMD of single images: one linear map per image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

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
        self.rank, self.most, self.n, self.rounding = rank, most, 0, 0.0
        self.states: dict[str, list[Tensor]] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch, until there are enough images."""
        kept = min(batch.n, self.most - self.n)
        self.n += kept
        if not kept:
            return
        self.rounding = batch.rounding
        for group, means in batch.unit_means.items():
            self.states.setdefault(group, []).append(means[:kept])

    def _fit(self, states: Float[Tensor, "layers width"]) -> list[float]:
        """Return the numbers of one image's map."""
        before, after = states[:-1], states[1:]
        modes = fit(before.T, after.T, self.rank, self.rounding)
        error = (modes.step(before) - after).norm(dim=-1).mean().item()  # of unit states
        return [modes.spectral_radius, modes.median_modulus, error, len(modes.eigenvalues)]

    def compute(self, seed: int = 0) -> dict[str, ImageModes]:
        """Return means over images, by token group."""
        results = {}
        for group, states in self.states.items():
            mean = BinnedMean()
            mean.add(torch.tensor([self._fit(one) for one in torch.cat(states)], dtype=torch.float64))
            means = mean.mean().tolist()
            low, high = (end.tolist() for end in mean.interval(seed=seed))
            radius, median, error, rank = (Estimate(*values, mean.n) for values in zip(means, low, high, strict=True))
            results[group] = ImageModes(radius, median, error, rank.value, mean.n)
        return results
