"""Self-correction and sensitivity: push tokens of a group at a layer, and follow all groups to the end (Figure 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.dynamics.geometry import angle
from raptor.dynamics.ranking import rank_correlation
from raptor.errors import LayerError, OptionError
from raptor.flow import DepthFlow, layers_of, pixels_of
from raptor.resampling import BinnedMean, percentile_interval

EPSILONS = (0.01, 0.03, 0.1, 0.3, 0.5)
SHOWN = 0.1  # the one that figures and sentences speak of
DRAWS = 2

# Group that is pushed, group that is read.
Pair = tuple[str, str]


@dataclass(frozen=True)
class Pushed:
    """Where pushes of all sizes at all layers lead.

    Parameters
    ----------
    layers, epsilons
        Where tokens were pushed, and by how much of their norm.
    angles
        By pair of groups, for each image: the angle to the unpushed state, by layer of the push, its size, and layers
        after it (0..L; 0 beyond the end).
    ends
        1 - cosine at the last layer, by layer of the push and its size.
    depth, draws, seed
        Of the flow, of random directions a push, of those directions.
    """

    layers: tuple[int, ...]
    epsilons: tuple[float, ...]
    angles: dict[Pair, BinnedMean]
    ends: dict[Pair, BinnedMean]
    depth: int
    draws: int
    seed: int

    @property
    def n(self) -> int:
        """Images that were pushed."""
        return next(iter(self.ends.values())).n

    def sensitivity(self, pair: Pair) -> dict[str, Float[Tensor, "layers epsilons"]]:
        """Return the mean deviation at the end over epsilon and over its square, with the interval of the former.

        The deviation of cosines is quadratic in small epsilon, so that the first falls with it and the second does not.
        """
        size = torch.tensor(self.epsilons, dtype=torch.float64)
        mean = self.ends[pair]
        low, high = mean.interval(seed=self.seed)
        return {
            "over_epsilon": mean.mean() / size,
            "low": low / size,
            "high": high / size,
            "over_square": mean.mean() / size.square(),
        }

    def slope(self, pair: Pair, layer: int, epsilon: float) -> tuple[float, tuple[float, float]]:
        """Return the slope of the logarithm of the mean angle by layer after a push, with its interval over images.

        Below 0 the flow corrects itself; no number where fewer than two layers follow.
        """
        where = (self.layers.index(layer), self.epsilons.index(epsilon), slice(0, self.depth - layer + 1))
        part = self.angles[pair].part(where)
        low, high = percentile_interval(_slope(part.resample(seed=self.seed)))
        return _slope(part.mean()).item(), (low.item(), high.item())

    def return_time(self, pair: Pair, layer: int, epsilon: float) -> float:
        """Return how many layers after a push the mean angle is half of what it was; infinite where it never is."""
        where = (self.layers.index(layer), self.epsilons.index(epsilon), slice(0, self.depth - layer + 1))
        angles = self.angles[pair].part(where).mean()
        below = (angles <= angles[0] / 2).nonzero()
        if not len(below):
            return float("inf")
        after = int(below[0])
        before, then = angles[after - 1], angles[after]
        return after - 1 + ((before - angles[0] / 2) / (before - then)).item()

    def basin_depth(self, group: str, gamma: Sequence[float], epsilon: float) -> tuple[float, float, int]:
        """Return Spearman's correlation of return times with gamma over layers of the push, its p-value, and how many.

        Gamma near 1 is read as deep in a basin: a correlation below 0 says that there directions return sooner. Pushes
        from which directions have not returned by the end count not: late ones have no time for it.
        """
        times = {layer: self.return_time((group, group), layer, epsilon) for layer in self.layers}
        returned = [layer for layer, after in times.items() if after < float("inf")]
        found = rank_correlation([times[layer] for layer in returned], [gamma[layer] for layer in returned])
        return (*found, len(returned))


def _slope(angles: Float[Tensor, "*draws layers"]) -> Float[Tensor, " *draws"]:
    """Return the least-squares slope of log angle against the number of layers."""
    n = angles.shape[-1]
    if n < 2:
        return torch.full(angles.shape[:-1], torch.nan, dtype=angles.dtype)
    at = torch.arange(n, dtype=angles.dtype) - (n - 1) / 2
    return (angles.clamp(min=torch.finfo(angles.dtype).tiny).log() * at).sum(dim=-1) / at.square().sum()


@torch.no_grad()
def push(
    flow: DepthFlow,
    images: Iterable[Any],
    layers: Sequence[int] | None = None,
    groups: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    draws: int = DRAWS,
    seed: int = 0,
) -> Pushed:
    """Push tokens off their trajectory, x + eps |x| u / |u| with u ~ N(0, I), and follow them.

    A push at layer l costs the L - l layers after it; all sizes and draws of it are one batch.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        A few dozen are enough.
    layers
        Where to push, 0..L-1; by default everywhere.
    groups
        Which token groups to push, one at a time; by default each. All are read.
    epsilons, draws
        Sizes relative to each token's norm, and random directions of each.
    seed
        Of the directions and of the bootstrap over images.
    """
    at = tuple(range(flow.depth)) if layers is None else tuple(layers)
    if any(not 0 <= layer < flow.depth for layer in at):
        raise LayerError(f"this flow can be pushed at the layers 0 to {flow.depth - 1}, not at {list(at)}")
    if not epsilons or min(epsilons) <= 0 or draws < 1:
        raise OptionError(f"pushes are above 0 and drawn at least once, not {list(epsilons)} and {draws} times")
    pushed = [(group, flow.layout.where(group)) for group in groups or flow.layout.slices]
    found = Pushed(at, tuple(epsilons), {}, {}, flow.depth, draws, seed)
    generator = torch.Generator().manual_seed(seed)
    for pixels in pixels_of(images):
        states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        truth = [normalize(state, dim=-1) for state in states]
        for group, where in pushed:
            followed = [_follow(flow, states[layer], truth[layer:], layer, where, found, generator) for layer in at]
            angles, ends = (torch.stack(parts, dim=1) for parts in zip(*followed, strict=True))
            for read, tokens in flow.layout.slices.items():
                found.angles.setdefault((group, read), BinnedMean()).add(angles[..., tokens].mean(dim=-1))
                found.ends.setdefault((group, read), BinnedMean()).add(ends[..., tokens].mean(dim=-1))
    return found


def _follow(
    flow: DepthFlow,
    state: Float[Tensor, "batch tokens width"],
    truth: list[Tensor],
    layer: int,
    where: slice,
    plan: Pushed,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "batch epsilons layers tokens"], Float[Tensor, "batch epsilons tokens"]]:
    """Return means over draws: the angle of every token at the layers after a push, and 1 - cosine at the end."""
    batch, tokens, width = state.shape
    shape = (batch, len(plan.epsilons), plan.draws)
    noise = torch.randn(batch, plan.draws, tokens, width, generator=generator).to(state)
    away = torch.zeros_like(noise)
    away[:, :, where] = normalize(noise[:, :, where], dim=-1) * state[:, None, where].norm(dim=-1, keepdim=True)
    sizes = state.new_tensor(plan.epsilons)[None, :, None, None, None]
    started = (state[:, None, None] + sizes * away[:, None]).flatten(0, 2)
    found = state.new_zeros(batch, len(plan.epsilons), plan.depth + 1, tokens)
    deviation = started
    for after, (_, moved) in enumerate(layers_of(flow, started, layer)):
        beside = truth[after].repeat_interleave(shape[1] * shape[2], dim=0)
        deviation = angle(normalize(moved, dim=-1), beside).unflatten(0, shape)
        found[:, :, after] = deviation.mean(dim=2)
    # 1 - cos(a) = 2 sin(a / 2)^2, which keeps small angles.
    return found, 2 * (deviation / 2).sin().square().mean(dim=2)
