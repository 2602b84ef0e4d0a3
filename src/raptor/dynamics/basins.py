"""Basins made measurable: how far images of a class are from one another and from other classes, layer by layer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from raptor.device import doubled
from raptor.dynamics.dmd import group_means
from raptor.dynamics.motion import Motion
from raptor.errors import DataError
from raptor.resampling import BinnedMean

NOT_THERE = -2.0  # instead of a cosine
SEPARATED = 0.5  # share of a class's images that are nearest to their own mean, from which on it counts as separate


@dataclass(frozen=True)
class Basins:
    """Of one token group, by layer 0..L; angles in radians.

    Parameters
    ----------
    within, between
        Mean angle of an image's direction to the mean direction of its own class, and to those of the others.
    nearest
        Share of images whose nearest class mean is that of their own class, the means being those of other images.
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


class _Halves:
    """Parts the images of each class in two, by turns: every class of two images is in both halves."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def of(self, label: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Return the half of each of the next images."""
        found = []
        for number in label.tolist():
            found.append(self.seen[number] % 2)
            self.seen[number] += 1
        return torch.tensor(found)


class ClassMeans:
    """First pass: the sum of the unit group means of each class at each layer, of both halves of the images apart."""

    def __init__(self) -> None:
        self.halves = _Halves()
        self.sums: dict[str, Float[Tensor, "halves layers classes width"]] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        label = _labels(motion)
        half = self.halves.of(label)
        for group in motion.layout.slices:
            states = doubled(group_means(motion, group)).cpu()
            old = self.sums.get(group, states.new_zeros(2, states.shape[1], 0, states.shape[2]))
            classes = max(old.shape[2], int(label.max()) + 1)
            new = states.new_zeros(2, states.shape[1], classes, states.shape[2])
            new[:, :, : old.shape[2]] = old
            for number in (0, 1):
                new[number].index_add_(1, label[half == number], states[half == number].transpose(0, 1))
            self.sums[group] = new


class BasinMeasure:
    """Second pass: angles to the class means, an image being compared with those of the other half.

    Parameters
    ----------
    means
        Of a first pass over the same images in the same order.
    """

    def __init__(self, means: ClassMeans):
        self.means, self.halves = means, _Halves()
        self.curves: dict[str, BinnedMean] = {}
        self.right: dict[str, Tensor] = {}
        self.count: Tensor | None = None

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        label = _labels(motion)
        half = self.halves.of(label)
        first = next(iter(self.means.sums.values()))
        # Classes that the other half has; an image whose class it lacks, the only one of it, is left out.
        there = (first[:, 0].norm(dim=-1) > 0).flip(0)[half]
        kept = there[torch.arange(len(label)), label]
        if not kept.any():
            return
        label, half, there = label[kept], half[kept], there[kept]
        for group, sums in self.means.sums.items():
            centres = normalize(sums, dim=-1).flip(0)[half]
            states = doubled(group_means(motion, group)).cpu()[kept]
            cosine = torch.einsum("bld,blcd->blc", states, centres).clamp(-1, 1)
            curves = _curves(cosine.masked_fill(~there[:, None], NOT_THERE), label)
            self.curves.setdefault(group, BinnedMean()).add(curves)
            right = self.right.setdefault(group, torch.zeros(sums.shape[2], sums.shape[1], dtype=torch.float64))
            right.index_add_(0, label, curves[..., 2])
        counts = torch.bincount(label, minlength=first.shape[2])
        self.count = counts if self.count is None else self.count + counts

    def result(self, seed: int = 0) -> dict[str, Basins]:
        """Return the curves of each group."""
        found: dict[str, Basins] = {}
        if self.count is None:  # no class has two images
            return found
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
    """Return, of each image, the angle to its class, the mean angle to the others, and whether its class is nearest."""
    own = cosine.gather(2, label[:, None, None].expand(-1, cosine.shape[1], 1))[..., 0]
    angles = cosine.clamp(min=-1).arccos()
    other = cosine > NOT_THERE
    other[torch.arange(len(label)), :, label] = False
    between = (angles * other).sum(dim=-1) / other.sum(dim=-1).clamp(min=1)
    return torch.stack(
        [own.clamp(min=-1).arccos(), between, (cosine.argmax(dim=-1) == label[:, None]).double()], dim=-1
    )


def _since(holds: Tensor) -> int | None:
    """Return the first layer from which on something holds up to the last."""
    failing = (~holds).nonzero()
    first = int(failing[-1]) + 1 if len(failing) else 0
    return first if first < len(holds) else None


def _labels(motion: Motion) -> Int[Tensor, " batch"]:
    if motion.label is None:
        raise DataError("these images have no labels, so that there are no classes to tell apart")
    return motion.label.cpu()
