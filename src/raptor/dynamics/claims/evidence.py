"""What the rules of the claims are computed from, and how an effect becomes a finding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.dynamics.claims.claim import Finding
from raptor.dynamics.claims.statistics import Number
from raptor.dynamics.curves.ranks import UpdateRanks
from raptor.dynamics.dmd.pooled import Modes
from raptor.dynamics.jackknife import half_width
from raptor.dynamics.perturbations.mixing import MixingDraws
from raptor.dynamics.perturbations.perturb import PerturbationResult
from raptor.dynamics.stationarity import Stationarity


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured of a model, before it is summarised.

    Parameters
    ----------
    norms, gamma, speed, speed_squares, coherence, state_coherence
        By token group, running means over images of one number per layer or step.
    last
        By token group, the last layer that counts: L, or L - 1 for tokens that the model's head does not read at L.
    coherence_floor
        By token group, the coherence of independent updates.
    ranks
        Effective ranks of updates, after `compute`.
    modes, modes_without
        The linear map of each token group, and the maps without each part of the images in turn.
    rotation_measured, rotation_draws
        By claim, the statistic of some trajectories, and of the draws of the rotation null.
    perturbed
        Perturbed trajectories.
    mixing
        Mixtures of images; None where there is no pair of images.
    stationarity
        Test whether speed is steady within phases; None where there is none.
    stationarity_draws
        Bootstrap draws over images of the variance that phases explain.
    seed
        Seed of the bootstrap and of the nulls.
    """

    norms: dict[str, BinnedMean]
    gamma: dict[str, BinnedMean]
    speed: dict[str, BinnedMean]
    speed_squares: dict[str, BinnedMean]
    coherence: dict[str, BinnedMean]
    state_coherence: dict[str, BinnedMean]
    last: dict[str, int]
    coherence_floor: dict[str, float]
    ranks: UpdateRanks
    modes: dict[str, Modes]
    modes_without: list[dict[str, Modes]]
    rotation_measured: dict[str, Number]
    rotation_draws: dict[str, Number]
    perturbed: PerturbationResult
    mixing: MixingDraws | None
    stationarity: Stationarity | None
    stationarity_draws: Float[Tensor, " draws"] | None
    seed: int = 0

    @property
    def n(self) -> int:
        """Number of images."""
        return next(iter(self.norms.values())).n

    def curves(
        self, means: Mapping[str, BinnedMean], steps: bool = False
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return mean curves and bootstrap draws of them, up to the last layer (or step) that counts."""
        ends = {group: self.last[group] + (not steps) for group in means}
        value = {group: mean.mean()[: ends[group]] for group, mean in means.items()}
        drawn = {group: mean.resample(seed=self.seed)[:, : ends[group]] for group, mean in means.items()}
        return value, drawn

    def rotation_p(self, name: str) -> tuple[float, float, float]:
        """Return the mean of a claim's statistic under the rotation null, its p-value, and the smallest p-value."""
        drawn = self.rotation_draws[name]
        above = int((drawn >= self.rotation_measured[name] - 1e-12).sum())
        return float(drawn.mean()), (1 + above) / (1 + len(drawn)), 1 / (1 + len(drawn))


def bootstrapped(value: Number, draws: Number, n: int) -> Estimate[float] | None:
    """Return an effect with its bootstrap interval; None where it is not a number.

    One image has no interval: then nothing is known of how the effect differs between images.
    """
    if value.isnan():
        return None
    return Estimate.from_draws(value, draws, n) if n > 1 else Estimate(float(value), math.nan, math.nan, n)


def jackknifed(value: Number, without: Iterable[Number], n: int) -> Estimate[float] | None:
    """Return an effect with its jackknife interval; None where it is not a number."""
    if value.isnan():
        return None
    others = list(without)
    wide = float(half_width(torch.stack(others))) if others else float("nan")
    return Estimate(float(value), float(value) - wide, float(value) + wide, n)


def above_share(draws: Number, null: float) -> tuple[float, float]:
    """Return the p-value of a null from bootstrap draws, the share of draws at or below it, and its smallest value."""
    return float((1 + (draws <= null).sum()) / (1 + len(draws))), 1 / (1 + len(draws))


def cannot(why: str) -> Finding:
    """Return the finding of a claim that cannot be tested here."""
    return Finding(why)


def listed(values: Iterable[tuple[str, float | Number]], form: str = ".3f") -> str:
    """Return numbers by token group as text."""
    return ", ".join(f"{name} {float(value):{form}}" for name, value in values)
