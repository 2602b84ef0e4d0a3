"""A walk without memory: what DMD finds where there is nothing to find."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.dynamics.dmd import DMDError, PooledDMD
from raptor.dynamics.geometry import angle
from raptor.dynamics.motion import Motion
from raptor.resampling import BinnedMean
from raptor.tokens import TokenLayout

STARTS = 500  # images


@dataclass(frozen=True)
class Walk:
    """What the fit of DMD gives of a walk that starts where the flow does and is as fast."""

    spectral_radius: float
    median_modulus: float
    one_step_error: float
    n: int


class WalkMeasure:
    """Remembers where unit group means start, of some images, and how fast they are."""

    def __init__(self) -> None:
        self.starts: dict[str, list[Tensor]] = {}
        self.speeds: dict[str, BinnedMean] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        for group, means in motion.unit_means.items():
            starts = self.starts.setdefault(group, [])
            room = STARTS - sum(map(len, starts))
            if room > 0:
                starts.append(means[:room, 0])
            self.speeds.setdefault(group, BinnedMean()).add(angle(means[:, :-1], means[:, 1:]))

    def result(self, seed: int = 0) -> dict[str, Walk]:
        """Fit walks from one half of the starts, judge on those from the other."""
        return {group: self._walk(torch.cat(starts), group, seed) for group, starts in self.starts.items()}

    def _walk(self, starts: Float[Tensor, "images width"], group: str, seed: int) -> Walk:
        states = random_walk(starts, self.speeds[group].mean().tolist(), seed)
        middle = (len(starts) + 1) // 2
        pooled, layout = PooledDMD(), TokenLayout(0, 0, (1, 1))
        pooled.add(Motion([state[:middle, None] for state in states], layout))
        modes = pooled.result()
        error = DMDError(modes)
        error.add(Motion([state[middle:, None] for state in states], layout))
        found = modes["patch"]
        return Walk(found.spectral_radius, found.median_modulus, error.one["patch"].mean().mean().item(), len(starts))


def random_walk(
    starts: Float[Tensor, "images width"], speeds: Sequence[float], seed: int = 0
) -> list[Float[Tensor, "images width"]]:
    """Return unit states that move by given angles, each step in a fresh direction."""
    generator = torch.Generator().manual_seed(seed)
    states = [normalize(starts, dim=-1)]
    for speed in speeds:
        here = states[-1]
        drawn = torch.randn(here.shape, generator=generator, dtype=here.dtype)
        across = normalize(drawn - (drawn * here).sum(dim=-1, keepdim=True) * here, dim=-1)
        states.append(math.cos(speed) * here + math.sin(speed) * across)
    return states
