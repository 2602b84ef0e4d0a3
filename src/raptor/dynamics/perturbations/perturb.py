"""Sensitivity and self-correction: perturb the tokens of a group at a layer and follow all groups (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.bootstrap import BinnedMean, percentile_interval
from raptor.core.correlation import rank_correlation
from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, layers_of
from raptor.dynamics.perturbations.follow import follow
from raptor.dynamics.perturbations.sensitivity import Correction, GroupCorrection, PairSensitivity, Sensitivity
from raptor.errors import LayerError, OptionError

EPSILONS = (0.01, 0.03, 0.1, 0.3, 0.5)
DRAWS = 2

# Group that is perturbed, group that is read.
Pair = tuple[str, str]


@dataclass(frozen=True)
class PerturbationResult:
    """Deviations after perturbations of all sizes at all layers, as running means over images.

    Parameters
    ----------
    layers, epsilons, draws
        As in `Perturbations`.
    depth, seed
        Depth of the flow; seed of the directions and of the bootstrap over images.
    angles
        By pair of groups: the angle to the unperturbed state, by perturbed layer, size, and layers after it (0..L; 0
        beyond the last layer).
    ends
        By pair of groups: 1 - cosine at the last layer, by perturbed layer and size.
    passive, passive_ends
        The same for the perturbed group itself, if the perturbation were carried along unchanged.
    last
        By token group, the last layer that is read; L by default.
    """

    layers: tuple[int, ...]
    epsilons: tuple[float, ...]
    draws: int
    depth: int
    seed: int
    angles: dict[Pair, BinnedMean] = field(default_factory=dict)
    ends: dict[Pair, BinnedMean] = field(default_factory=dict)
    passive: dict[str, BinnedMean] = field(default_factory=dict)
    passive_ends: dict[str, BinnedMean] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of images."""
        return next(iter(self.ends.values())).n

    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity of each group to perturbations of each group."""
        by_pair = {f"{one}->{other}": self._sensitivity((one, other)) for one, other in self.ends}
        return Sensitivity(*self._applied(), by_pair)

    def correction(self, gamma: dict[str, list[float]]) -> Correction:
        """Return the self-correction of each perturbed group.

        Parameters
        ----------
        gamma
            By token group, the cosine with the last layer at the layers 0..L.
        """
        groups = [one for one, other in self.ends if one == other]
        return Correction(*self._applied(), {group: self._correction(group, gamma[group]) for group in groups})

    def _applied(self) -> tuple[list[int], list[float], int, int]:
        return list(self.layers), list(self.epsilons), self.draws, self.n

    def _sensitivity(self, pair: Pair) -> PairSensitivity:
        size = torch.tensor(self.epsilons, dtype=torch.float64)
        mean = self.ends[pair]
        values, low, high = (end / size for end in (mean.mean(), *mean.interval(seed=self.seed)))
        over_square = mean.mean() / size.square()
        passive = (self.passive_ends[pair[0]].mean() / size).tolist() if pair[0] == pair[1] else None
        estimate = Estimate(values.tolist(), low.tolist(), high.tolist(), mean.n)
        return PairSensitivity(estimate, over_square.tolist(), passive)

    def final_ratio(self, group: str) -> tuple[Float[Tensor, "layers sizes"], Float[Tensor, "draws layers sizes"]]:
        """Return the final angle of a perturbed group over the passive one, and bootstrap draws of it; NaN from L on.

        A value of 1 means that the layers carry the perturbation along unchanged; below 1 they correct it.
        """
        last = self.last.get(group, self.depth)
        pairs = []
        for i, layer in enumerate(self.layers):
            at = (i, slice(None), last - layer)
            pairs.append([means.part(at) for means in (self.angles[group, group], self.passive[group])])
        value = torch.stack([one.mean() / other.mean() for one, other in pairs])
        drawn = torch.stack([one.resample(seed=self.seed) / other.resample(seed=self.seed) for one, other in pairs], 1)
        gone = torch.tensor([layer >= last for layer in self.layers])
        value[gone], drawn[:, gone] = torch.nan, torch.nan
        return value, drawn

    def _correction(self, group: str, gamma: Sequence[float]) -> GroupCorrection:
        angles, last = self.angles[group, group], self.last.get(group, self.depth)
        slopes, times, passive_slopes, passive_times = [], [], [], []
        for i, layer in enumerate(self.layers):
            after = slice(0, last - layer + 1)
            parts = [angles.part((i, j, after)) for j in range(len(self.epsilons))]
            slopes.append([_slope_of(part, self.seed) for part in parts])
            times.append([_return_time(part.mean()) for part in parts])
            carried = self.passive[group].mean()[i, :, after]
            passive_slopes.append(_slope(carried).tolist())
            passive_times.append([_return_time(one) for one in carried])
        value, low, high = (
            [[getattr(one, side) for one in row] for row in slopes] for side in ("value", "low", "high")
        )
        depths = [self._return_and_gamma([row[j] for row in times], gamma) for j in range(len(self.epsilons))]
        return GroupCorrection(
            slope=Estimate(value, low, high, angles.n),
            return_time=times,
            return_time_and_gamma=[correlation for correlation, _, _ in depths],
            return_time_and_gamma_p=[p for _, p, _ in depths],
            return_time_and_gamma_layers=[n for _, _, n in depths],
            passive_slope=passive_slopes,
            passive_return_time=passive_times,
            final_ratio=Estimate.from_draws(*self.final_ratio(group), angles.n),
            angle=angles.mean().numpy(),
            passive_angle=self.passive[group].mean().numpy(),
        )

    def _return_and_gamma(self, times: Sequence[float], gamma: Sequence[float]) -> tuple[float, float, int]:
        """Return the rank correlation of return times with gamma, its p-value, and the number of layers."""
        returned = [(time, gamma[layer]) for layer, time in zip(self.layers, times, strict=True) if time < float("inf")]
        correlation, p = rank_correlation([time for time, _ in returned], [value for _, value in returned])
        return correlation, p, len(returned)


def _slope_of(angles: BinnedMean, seed: int) -> Estimate[float]:
    low, high = percentile_interval(_slope(angles.resample(seed=seed)))
    return Estimate(_slope(angles.mean()).item(), low.item(), high.item(), angles.n)


def _slope(angles: Float[Tensor, "*draws layers"]) -> Float[Tensor, " *draws"]:
    """Return the least-squares slope of the log angle against the number of layers."""
    n = angles.shape[-1]
    if n < 2:
        return torch.full(angles.shape[:-1], torch.nan, dtype=angles.dtype)
    at = torch.arange(n, dtype=angles.dtype) - (n - 1) / 2
    return (angles.clamp(min=torch.finfo(angles.dtype).tiny).log() * at).sum(dim=-1) / at.square().sum()


def _return_time(angles: Float[Tensor, " layers"]) -> float:
    """Return the interpolated number of layers after which the angle is halved; infinite if it never is."""
    below = (angles <= angles[0] / 2).nonzero()
    if not len(below):
        return float("inf")
    after = int(below[0])
    before, then = angles[after - 1], angles[after]
    return after - 1 + ((before - angles[0] / 2) / (before - then)).item()


@torch.no_grad()
def perturb(
    flow: DepthFlow,
    images: ImageSource,
    layers: Sequence[int] | None = None,
    groups: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    draws: int = DRAWS,
    seed: int = 0,
    last: Mapping[str, int] | None = None,
) -> PerturbationResult:
    """Perturb tokens, x + eps |x| u / |u| with u ~ N(0, I), and follow them to the last layer.

    A perturbation at layer l costs the L - l layers after it. All its sizes and draws are one batch.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        A few dozen images are enough.
    layers
        Layers to perturb, 0..L-1; all by default.
    groups
        Token groups to perturb, one at a time; all by default. All groups are read.
    epsilons, draws
        Sizes relative to each token's norm, and number of random directions per size.
    seed
        Seed of the directions and of the bootstrap over images.
    last
        By token group, the last layer to read where that is not L.
    """
    at = tuple(range(flow.depth)) if layers is None else tuple(layers)
    if any(not 0 <= layer < flow.depth for layer in at):
        raise LayerError(f"this flow can be perturbed at the layers 0 to {flow.depth - 1}, not at {list(at)}")
    if not epsilons or min(epsilons) <= 0 or draws < 1:
        raise OptionError(f"epsilons must be above 0 and draws at least 1, not {list(epsilons)} and {draws}")
    perturbed = [(group, flow.layout.where(group)) for group in groups or flow.layout.slices]
    ends_at = {group: (last or {}).get(group, flow.depth) for group in flow.layout.slices}
    result = PerturbationResult(at, tuple(epsilons), draws, flow.depth, seed, last=ends_at)
    generator = torch.Generator().manual_seed(seed)
    for pixels in pixels_of(images):
        states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        for group, where in perturbed:
            followed = [follow(flow, states[layer:], layer, where, result.epsilons, draws, generator) for layer in at]
            angles, passive = (torch.stack(parts, dim=1) for parts in zip(*followed, strict=True))
            for read, tokens in flow.layout.slices.items():
                _add(result.angles, result.ends, (group, read), angles[..., tokens], at, ends_at[read])
            _add(result.passive, result.passive_ends, group, passive[..., where], at, ends_at[group])
    return result


def _add(
    angles: dict[Any, BinnedMean],
    ends: dict[Any, BinnedMean],
    name: Any,
    found: Float[Tensor, "batch perturbed epsilons draws layers tokens"],
    at: Sequence[int],
    last: int,
) -> None:
    """Add the angles of some tokens by layers after the perturbation, and their deviation 1 - cosine at the end."""
    final = torch.stack([found[:, i, :, :, last - layer] for i, layer in enumerate(at)], dim=1)
    # 1 - cos(a) = 2 sin(a / 2)^2, which is exact for small angles.
    ends.setdefault(name, BinnedMean()).add(2 * (final / 2).sin().square().mean(dim=(3, 4)))
    angles.setdefault(name, BinnedMean()).add(found.mean(dim=(3, 5)))
