"""DMD image by image: one linear map for the depth of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from raptor.dynamics.dmd import RANK, fit
from raptor.dynamics.motion import Motion
from raptor.resampling import BinnedMean

MOST = 64  # images that are fitted


@dataclass(frozen=True)
class ImageModes:
    """Of one token group, means over images with 95% intervals.

    A map of rank r through the L steps of one image leaves little to explain: where r comes near L its error says
    nothing, and only its eigenvalues do.

    Parameters
    ----------
    spectral_radius, median_modulus, one_step_error
        Of the maps.
    ci
        By those names.
    rank
        Mean rank: at most 10, and at most the numerical rank of the image's states.
    n
        Images.
    """

    spectral_radius: float
    median_modulus: float
    one_step_error: float
    ci: dict[str, tuple[float, float]]
    rank: float
    n: int


class ImageDMD:
    """Fits the first images one by one.

    Parameters
    ----------
    rank
        Of each map, at most.
    most
        Images.
    """

    def __init__(self, rank: int = RANK, most: int = MOST):
        self.rank, self.most, self.n = rank, most, 0
        self.means: dict[str, BinnedMean] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch, as far as there is need."""
        kept = min(motion.n, self.most - self.n)
        self.n += kept
        if not kept:
            return
        for group, means in motion.unit_means.items():
            found = []
            for states in means[:kept]:
                before, after = states[:-1], states[1:]
                modes = fit(before.T, after.T, self.rank, motion.rounding)
                error = (modes.step(before) - after).norm(dim=-1).mean().item()  # of unit states
                found.append([modes.spectral_radius, modes.median_modulus, error, len(modes.eigenvalues)])
            self.means.setdefault(group, BinnedMean()).add(torch.tensor(found, dtype=torch.float64))

    def result(self, seed: int = 0) -> dict[str, ImageModes]:
        """Return means over images of each group."""
        found = {}
        for group, mean in self.means.items():
            radius, median, error, rank = mean.mean().tolist()
            low, high = (end.tolist() for end in mean.interval(seed=seed))
            names = ("spectral_radius", "median_modulus", "one_step_error")
            ends = {name: (low[i], high[i]) for i, name in enumerate(names)}
            found[group] = ImageModes(radius, median, error, ends, rank, mean.n)
        return found
