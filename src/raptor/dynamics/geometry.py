"""The geometry of depth: what a token's state does from layer to layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.device import doubled
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.motion import Motion, observe
from raptor.flow import DepthFlow
from raptor.resampling import BinnedMean, percentile_interval

SETTLED = 0.9  # gamma above which a token group counts as settled


def angle(x: Float[Tensor, "*shape width"], y: Float[Tensor, "*shape width"]) -> Float[Tensor, " *shape"]:
    """Return the angle between unit vectors; arccos of their product would lose small angles in single precision."""
    return 2 * torch.atan2((x - y).norm(dim=-1), (x + y).norm(dim=-1))


class _ByGroup:
    """A mean over the tokens of each group for every image and layer."""

    def __init__(self) -> None:
        self.means: dict[str, BinnedMean] = {}

    def take(self, motion: Motion, values: Float[Tensor, "batch layers tokens"]) -> None:
        """Add the values of a batch."""
        for group, where in motion.layout.slices.items():
            self.means.setdefault(group, BinnedMean()).add(motion.whole(values[:, :, where].mean(dim=-1)))

    def result(self, seed: int = 0) -> ByLayer:
        """Return means over images and tokens."""
        return ByLayer.of(self.means, seed)


class Norms(_ByGroup):
    """|x_l| at the layers 0..L (the paper's Figure 7)."""

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        self.take(motion, motion.norms)


class Convergence(_ByGroup):
    """gamma_l, the cosine of layers l and L, at the layers 0..L (Figure 6, right)."""

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        last = motion.directions[-1]
        self.take(motion, torch.stack([(state * last).sum(dim=-1) for state in motion.directions], dim=1))

    def settled(self, seed: int = 0) -> dict[str, tuple[int, tuple[float, float]]]:
        """Return, by group, the first layer whose mean gamma is above 0.9, and its interval over images."""
        found = {}
        for group, mean in self.means.items():
            first = (mean.resample(seed=seed) > SETTLED).int().argmax(dim=-1).double()
            low, high = percentile_interval(first)
            found[group] = (int((mean.mean() > SETTLED).int().argmax()), (low.item(), high.item()))
        return found


class Speed:
    """s_l, the angle between the directions of layers l and l + 1, at the steps 0..L-1 (Figure 9)."""

    def __init__(self) -> None:
        self.first, self.second = _ByGroup(), _ByGroup()

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        angles = doubled(motion.angles)  # since a spread is a small difference of large squares
        self.first.take(motion, angles)
        self.second.take(motion, angles.square())

    def result(self, seed: int = 0) -> ByLayer:
        """Return mean angles."""
        return self.first.result(seed)

    def spread(self, seed: int = 0) -> ByLayer:
        """Return the standard deviation over tokens and images."""
        mean, low, high = {}, {}, {}
        for group in self.first.means:
            first, second = self.first.means[group], self.second.means[group]
            mean[group] = _deviation(first.mean(), second.mean()).tolist()
            # The same seed draws the same images for both moments.
            ends = percentile_interval(_deviation(first.resample(seed=seed), second.resample(seed=seed)))
            low[group], high[group] = (end.tolist() for end in ends)
        return ByLayer(mean, low, high, next(iter(self.first.means.values())).n, seed)


def _deviation(first: Tensor, second: Tensor) -> Tensor:
    return (second - first.square()).clamp(min=0).sqrt()


def layer_norms(flow: DepthFlow, images: Iterable[Any], seed: int = 0) -> ByLayer:
    """Return the mean norm |x_l| of each token group at the layers 0..L (the paper's Figure 7).

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, (batch, 3, height, width) each, or whatever `load_images` gives; one batch is held at a time.
    seed
        Of the bootstrap over images.
    """
    norms = Norms()
    observe(flow, images, norms)
    return norms.result(seed)
