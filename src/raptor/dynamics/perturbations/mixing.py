"""Basins by experiment: mix the states of two images at a layer, run on, and see where the mixture ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, layers_of

SHARES = (0.4, 0.5, 0.6)  # of the second image; the slope is that between 0.4 and 0.6
MOST_LAYERS = 6  # layers at which states are mixed, beside the last


@dataclass(frozen=True)
class Mixing:
    """Where mixtures of two images end, by the layer at which they are mixed.

    Parameters
    ----------
    group, layers
        The token group that is read, and the layers. At the last layer nothing runs on: what is seen there comes from
        the normalisation of directions alone.
    slope
        How fast the end moves from one image's end to the other's at equal shares: 1 for a linear map, large where two
        basins meet in a sharp border.
    third
        Share of equal mixtures whose nearest class mean is that of neither image; None without labels.
    pairs
        Number of pairs.
    """

    group: str
    layers: list[int]
    slope: Estimate[list[float]]
    third: Estimate[list[float]] | None
    pairs: int


@dataclass(frozen=True)
class MixingDraws:
    """Slopes and third classes of each pair, as running means over pairs."""

    group: str
    layers: tuple[int, ...]
    seed: int
    slopes: BinnedMean = field(default_factory=BinnedMean)
    third: BinnedMean = field(default_factory=BinnedMean)

    def summary(self) -> Mixing:
        """Return means over pairs, with intervals."""
        third = Estimate.from_mean(self.third, self.seed) if self.third.n else None
        slopes = Estimate.from_mean(self.slopes, self.seed)
        return Mixing(self.group, list(self.layers), slopes, third, self.slopes.n)


def pairs_of(label: Int[Tensor, " images"] | None, n: int) -> list[tuple[int, int]]:
    """Return disjoint pairs of images, of different classes where there are labels.

    Parameters
    ----------
    label
        Class of each image, or None.
    n
        Number of images.
    """
    waiting, pairs = list(range(n)), []
    while len(waiting) > 1:
        first = waiting.pop(0)
        other = next((one for one in waiting if label is None or label[one] != label[first]), None)
        if other is not None:
            waiting.remove(other)
            pairs.append((first, other))
    return pairs


@torch.no_grad()
def mix(
    flow: DepthFlow,
    pixels: Float[Tensor, "images 3 rows columns"],
    pairs: Iterable[tuple[int, int]],
    label: Int[Tensor, " images"] | None = None,
    centres: Float[Tensor, "classes width"] | None = None,
    seed: int = 0,
) -> MixingDraws:
    """Mix the states of pairs of images at some layers, and run on to the last layer.

    Tokens are mixed as (1 - s) a + s b and scaled to the norm (1 - s) |a| + s |b|.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    pixels, pairs
        Images, and pairs of their numbers.
    label, centres
        Class of each image, and the mean direction of each class at the last layer; None without labels.
    seed
        Seed of the bootstrap over pairs.
    """
    group = "cls" if "cls" in flow.layout.slices else "patch"
    where = flow.layout.where(group)
    stride = -(-flow.depth // MOST_LAYERS)
    layers = tuple(sorted({*range(0, flow.depth, stride), flow.depth}))
    found = MixingDraws(group, layers, seed)
    shares = pixels.new_tensor(SHARES)[:, None, None]
    for pair in pairs:
        states = [states for _, states in layers_of(flow, flow.embed(pixels[list(pair)]))]
        first, second = _direction(states[-1], where)
        apart = second - first
        slopes, thirds = [], []
        for layer in layers:
            one, other = states[layer][:1], states[layer][1:]
            mixed = (1 - shares) * one + shares * other
            norms = (1 - shares) * one.norm(dim=-1, keepdim=True) + shares * other.norm(dim=-1, keepdim=True)
            *_, (_, ends) = layers_of(flow, normalize(mixed, dim=-1) * norms, layer)
            end = _direction(ends, where)
            at = ((end - first) @ apart) / apart.square().sum()
            slopes.append((at[SHARES.index(0.6)] - at[SHARES.index(0.4)]) / 0.2)
            if label is not None and centres is not None:
                absent = centres.norm(dim=-1) == 0
                cosine = (centres.to(end) @ end[SHARES.index(0.5)]).cpu().masked_fill(absent, -2.0)
                nearest = cosine.argmax()
                thirds.append(float(nearest not in (label[pair[0]], label[pair[1]])))
        found.slopes.add(torch.stack(slopes)[None])
        if thirds:
            found.third.add(torch.tensor([thirds]))
    return found


def _direction(states: Float[Tensor, "images tokens width"], where: slice) -> Float[Tensor, "images width"]:
    return normalize(states[:, where].mean(dim=1), dim=-1)
