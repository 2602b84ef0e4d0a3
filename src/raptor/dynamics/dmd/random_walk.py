"""Random-walk null of DMD: the same fit on a walk without memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.core.bootstrap import BinnedMean
from raptor.core.tokens import TokenLayout
from raptor.dynamics.angles import angle
from raptor.dynamics.dmd.pooled import DMDError, PooledDMD
from raptor.dynamics.measures import StateBatch

STARTS = 500  # images


@dataclass(frozen=True)
class RandomWalkNull:
    """DMD of a random walk with the flow's start and speed.

    Parameters
    ----------
    spectral_radius, median_modulus
        Largest and median modulus of the eigenvalues.
    one_step_error
        Mean relative error of one step, on walks that the map was not fitted to.
    n
        Number of walks.
    """

    spectral_radius: float
    median_modulus: float
    one_step_error: float
    n: int


class RandomWalkMeasure:
    """Starts of unit group means, for some images, and their mean speed; computes the null from them."""

    def __init__(self) -> None:
        self.starts: dict[str, list[Tensor]] = {}
        self.speeds: dict[str, BinnedMean] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        for group, means in batch.unit_means.items():
            starts = self.starts.setdefault(group, [])
            room = STARTS - sum(map(len, starts))
            if room > 0:
                starts.append(means[:room, 0])
            self.speeds.setdefault(group, BinnedMean()).add(angle(means[:, :-1], means[:, 1:]))

    def compute(self, seed: int = 0) -> dict[str, RandomWalkNull]:
        """Fit DMD to walks from one half of the starts and evaluate it on walks from the other half."""
        return {group: self._walk(torch.cat(starts), group, seed) for group, starts in self.starts.items()}

    def _walk(self, starts: Float[Tensor, "images width"], group: str, seed: int) -> RandomWalkNull:
        states = random_walk(starts, self.speeds[group].mean().tolist(), seed)
        middle = (len(starts) + 1) // 2
        pooled, layout = PooledDMD(), TokenLayout(0, 0, (1, 1))
        pooled.update(StateBatch([state[:middle, None] for state in states], layout))
        modes = pooled.compute()
        error = DMDError(modes)
        error.update(StateBatch([state[middle:, None] for state in states], layout))
        found = modes["patch"]
        return RandomWalkNull(
            found.spectral_radius, found.median_modulus, error.one_step["patch"].mean().mean().item(), len(starts)
        )


def random_walk(
    starts: Float[Tensor, "images width"], speeds: Sequence[float], seed: int = 0
) -> list[Float[Tensor, "images width"]]:
    """Return unit states that move by given angles, each step in a new random direction.

    Parameters
    ----------
    starts
        First states, of shape (images, width).
    speeds
        Angle of each step in radians.
    seed
        Seed of the directions.
    """
    generator = torch.Generator().manual_seed(seed)
    states = [normalize(starts, dim=-1)]
    for speed in speeds:
        here = states[-1]
        drawn = torch.randn(here.shape, generator=generator, dtype=here.dtype)
        across = normalize(drawn - (drawn * here).sum(dim=-1, keepdim=True) * here, dim=-1)
        states.append(math.cos(speed) * here + math.sin(speed) * across)
    return states
