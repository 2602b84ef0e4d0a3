"""Basins made measurable: how far images of a class are from one another and from other classes, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from raptor.dynamics.motion import Motion
from raptor.errors import DataError
from raptor.resampling import BinnedMean

NOT_THERE = -2.0  # instead of a cosine
TIED = 1e-12  # cosines that differ by less are the same: all cls tokens are, before the first layer
SEPARATED = 0.5  # share of a class's images that are nearest to their own mean, from which on it counts as separate


@dataclass(frozen=True)
class Basins:
    """Of one token group, by layer 0..L; angles in radians. Means are of one half of the images, the rest of the other.

    Parameters
    ----------
    within, between
        Mean angle of an image's direction to the mean direction of its own class, and to those of the others.
    nearest
        Share of images whose nearest class mean is that of their own class; among equally near ones, by chance.
    separated
        By class, the first layer from which on at least half of its images are nearest to its mean; None if never.
    low, high
        Ends of 95% intervals over images, by the names of the three curves.
    n
        Images.
    """

    within: list[float]
    between: list[float]
    nearest: list[float]
    separated: dict[int, int | None]
    low: dict[str, list[float]]
    high: dict[str, list[float]]
    n: int


class ClassMeans:
    """First half of the images: the sum of the unit group means of each class at each layer."""

    def __init__(self) -> None:
        self.sums: dict[str, Float[Tensor, "layers classes width"]] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        label = _labels(motion)
        for group, states in motion.unit_means.items():
            sums = self.sums.get(group, states.new_zeros(states.shape[1], 0, states.shape[2]))
            if (more := int(label.max()) + 1 - sums.shape[1]) > 0:
                sums = pad(sums, (0, 0, 0, more))
            self.sums[group] = sums.index_add_(1, label, states.transpose(0, 1))


class BasinMeasure:
    """Second half: angles to the class means of the first.

    Parameters
    ----------
    means
        Of the other images.
    """

    def __init__(self, means: ClassMeans):
        self.centres = {group: normalize(sums, dim=-1) for group, sums in means.sums.items()}
        first = next(iter(means.sums.values()))
        self.there = first[0].norm(dim=-1) > 0  # classes that the other half has
        self.curves: dict[str, BinnedMean] = {}
        self.right: dict[str, Tensor] = {}
        self.count = torch.zeros(len(self.there), dtype=torch.long)

    def add(self, motion: Motion) -> None:
        """Take in a batch; images of classes that the other half lacks are left out."""
        label = _labels(motion)
        kept = label < len(self.there)
        kept[kept.clone()] = self.there[label[kept]]
        if not kept.any():
            return
        label = label[kept]
        for group, centres in self.centres.items():
            cosine = torch.einsum("bld,lcd->blc", motion.unit_means[group][kept], centres).clamp(-1, 1)
            curves = _curves(cosine.masked_fill(~self.there, NOT_THERE), label)
            self.curves.setdefault(group, BinnedMean()).add(curves)
            right = self.right.setdefault(group, torch.zeros(len(self.there), len(centres), dtype=torch.float64))
            right.index_add_(0, label, (curves[..., 2] == 1).double())  # nearer than all others, not as near
        self.count += torch.bincount(label, minlength=len(self.there))

    def result(self, seed: int = 0) -> dict[str, Basins]:
        """Return the curves of each group."""
        found: dict[str, Basins] = {}  # empty where no class is in both halves
        for group, mean in self.curves.items():
            within, between, nearest = (values.tolist() for values in mean.mean().unbind(-1))
            low, high = mean.interval(seed=seed)
            names = ("within", "between", "nearest")
            ends = [dict(zip(names, (v.tolist() for v in end.unbind(-1)), strict=True)) for end in (low, high)]
            shares = self.right[group] / self.count[:, None].clamp(min=1)
            separated = {
                number: _since(share >= SEPARATED) for number, share in enumerate(shares) if self.count[number]
            }
            found[group] = Basins(within, between, nearest, separated, ends[0], ends[1], mean.n)
        return found


def _curves(
    cosine: Float[Tensor, "batch layers classes"], label: Int[Tensor, " batch"]
) -> Float[Tensor, "batch layers 3"]:
    """Return, of each image, the angle to its class, the mean angle to the others, and whether its class is nearest.

    Of several classes that are equally near each is so in part.
    """
    own = cosine.gather(2, label[:, None, None].expand(-1, cosine.shape[1], 1))[..., 0]
    angles = cosine.clamp(min=-1).arccos()
    other = cosine > NOT_THERE
    other[torch.arange(len(label)), :, label] = False
    between = (angles * other).sum(dim=-1) / other.sum(dim=-1)  # no number where there is no other class
    nearest = cosine >= cosine.amax(dim=-1, keepdim=True) - TIED
    right = (own >= cosine.amax(dim=-1) - TIED).double() / nearest.sum(dim=-1)
    return torch.stack([own.clamp(min=-1).arccos(), between, right], dim=-1)


def _since(holds: Tensor) -> int | None:
    """Return the first layer from which on something holds up to the last."""
    failing = (~holds).nonzero()
    first = int(failing[-1]) + 1 if len(failing) else 0
    return first if first < len(holds) else None


def _labels(motion: Motion) -> Int[Tensor, " batch"]:
    if motion.label is None:
        raise DataError("these images have no labels, so that there are no classes to tell apart")
    return motion.label.cpu()
