"""Basins of classes: angles from images to the mean directions of their own class and of others, by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.dynamics.measures import StateBatch
from raptor.dynamics.paths import class_name
from raptor.errors import DataError

ABSENT = -2.0  # cosine of a class that is absent
TIED = 1e-12  # cosines that differ by less are equal, as those of all cls tokens before the first layer
SEPARATED = 0.5  # share of a class's images that must be nearest to its mean for it to count as separate


@dataclass(frozen=True)
class Basins:
    """Basins of one token group, by layer 0..L. Class means come from one half of the images, the rest from the other.

    Parameters
    ----------
    within, between
        Mean angle (radians) from an image to the mean direction of its own class, and to those of other classes.
    nearest
        Share of images whose nearest class mean is that of their own class; ties count in part.
    separated
        By class, the first layer from which at least half of its images are nearest to its mean; None if never.
    n
        Number of images.
    """

    within: Estimate[list[float]]
    between: Estimate[list[float]]
    nearest: Estimate[list[float]]
    separated: dict[str, int | None]
    n: int


class ClassMeans:
    """Sums of the unit group means of each class at each layer, over the first half of the images."""

    def __init__(self) -> None:
        self.sums: dict[str, Float[Tensor, "layers classes width"]] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        label = _labels(batch)
        for group, states in batch.unit_means.items():
            sums = self.sums.get(group, states.new_zeros(states.shape[1], 0, states.shape[2]))
            if (more := int(label.max()) + 1 - sums.shape[1]) > 0:
                sums = pad(sums, (0, 0, 0, more))
            self.sums[group] = sums.index_add_(1, label, states.transpose(0, 1))

    def directions(self, layer: int) -> Float[Tensor, "classes width"]:
        """Return the mean direction of each class at a layer, of cls where there is one; zeros for absent classes."""
        return normalize(self.sums.get("cls", next(reversed(self.sums.values())))[layer], dim=-1)


class BasinMeasure:
    """Angles from the second half of the images to the class means of the first.

    Parameters
    ----------
    means
        Class means of the other images.
    """

    def __init__(self, means: ClassMeans):
        self.centres = {group: normalize(sums, dim=-1) for group, sums in means.sums.items()}
        first = next(iter(means.sums.values()))
        self.there = first[0].norm(dim=-1) > 0  # classes that occur in the other half
        self.curves: dict[str, BinnedMean] = {}
        self.right: dict[str, Tensor] = {}
        self.count = torch.zeros(len(self.there), dtype=torch.long)

    def update(self, batch: StateBatch) -> None:
        """Add a batch, without images of classes that the other half lacks."""
        label = _labels(batch)
        kept = label < len(self.there)
        kept[kept.clone()] = self.there[label[kept]]
        if not kept.any():
            return
        label = label[kept]
        for group, centres in self.centres.items():
            cosine = torch.einsum("bld,lcd->blc", batch.unit_means[group][kept], centres).clamp(-1, 1)
            curves = _curves(cosine.masked_fill(~self.there, ABSENT), label)
            self.curves.setdefault(group, BinnedMean()).add(curves)
            right = self.right.setdefault(group, torch.zeros(len(self.there), len(centres), dtype=torch.float64))
            right.index_add_(0, label, (curves[..., 2] == 1).double())  # strictly nearer than all others
        self.count += torch.bincount(label, minlength=len(self.there))

    def compute(self, seed: int = 0, classes: Sequence[str] | None = None) -> dict[str, Basins]:
        """Return the basins of each token group; none where no class occurs in both halves.

        Parameters
        ----------
        seed
            Seed of the bootstrap over images.
        classes
            Names of the classes; their numbers by default.
        """
        results: dict[str, Basins] = {}
        for group, mean in self.curves.items():
            value, (low, high) = mean.mean(), mean.interval(seed=seed)
            within, between, nearest = (
                Estimate(value[..., i].tolist(), low[..., i].tolist(), high[..., i].tolist(), mean.n) for i in range(3)
            )
            shares = self.right[group] / self.count[:, None].clamp(min=1)
            separated = {
                class_name(number, classes): _since(share >= SEPARATED)
                for number, share in enumerate(shares)
                if self.count[number]
            }
            results[group] = Basins(within, between, nearest, separated, mean.n)
        return results


def _curves(
    cosine: Float[Tensor, "batch layers classes"], label: Int[Tensor, " batch"]
) -> Float[Tensor, "batch layers 3"]:
    """Return, for each image, the angle to its class, the mean angle to the others, and whether its class is nearest.

    Of m classes that are equally near, each counts 1 / m.
    """
    own = cosine.gather(2, label[:, None, None].expand(-1, cosine.shape[1], 1))[..., 0]
    angles = cosine.clamp(min=-1).arccos()
    other = cosine > ABSENT
    other[torch.arange(len(label)), :, label] = False
    between = (angles * other).sum(dim=-1) / other.sum(dim=-1)  # NaN where there is no other class
    nearest = cosine >= cosine.amax(dim=-1, keepdim=True) - TIED
    right = (own >= cosine.amax(dim=-1) - TIED).double() / nearest.sum(dim=-1)
    return torch.stack([own.clamp(min=-1).arccos(), between, right], dim=-1)


def _since(holds: Tensor) -> int | None:
    """Return the first layer from which a condition holds up to the last layer; None if there is none."""
    failing = (~holds).nonzero()
    first = int(failing[-1]) + 1 if len(failing) else 0
    return first if first < len(holds) else None


def _labels(batch: StateBatch) -> Int[Tensor, " batch"]:
    if batch.label is None:
        raise DataError("basins need labels; this dataset has none")
    return batch.label.cpu()
