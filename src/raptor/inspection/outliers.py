"""Outlier tokens: patches with massive activations, which hold much of the variance of a model's states.

Some trained ViTs use a few patches of unimportant background as memory: their norms are many times those of other
patches (Darcet et al. 2024, who add registers for this; Sun et al. 2024, massive activations). Squared errors, R2,
principal components and ranks are then statements about a handful of tokens.

The rule: a patch is an outlier at a layer if its norm is more than `FACTOR` times the median norm of all patches of
all images at that layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import ImageSet, ImageSource, as_image_set
from raptor.core.flow import DepthFlow, layers_of
from raptor.errors import DataError
from raptor.runtime.device import doubled

FACTOR = 5.0  # norm of an outlier over the median norm of patches
MOST_IMAGES = 256  # images that are read; norms of all their patches are held in memory
FEATURES = 5  # features that are named
LEAST_SHARE = 0.1  # share of a layer's variance from which a model counts as having massive activations


@dataclass(frozen=True)
class OutlierTokens:
    """Patches with massive activations, by layer 0..L.

    Parameters
    ----------
    n
        Number of images.
    factor
        A patch is an outlier if its norm is above `factor` times the median norm of patches at its layer.
    median_norm, largest_norm
        Of patches, by layer.
    share_of_tokens, share_of_variance
        By layer: the share of patches that are outliers, and the share that they hold of the squared distance from the
        mean of their position.
    first_layer
        First layer at which outliers hold at least 10% of the variance; None if there is none.
    worst_layer
        Layer at which they hold most.
    features, share_of_features
        Features with the largest variance at the worst layer, and the share of the variance that each holds.
    per_image
        Number of outliers in each image at the worst layer.
    where
        Share of images in which each patch is an outlier at the worst layer, as rows of the grid.
    """

    n: int
    factor: float
    median_norm: list[float]
    largest_norm: list[float]
    share_of_tokens: list[float]
    share_of_variance: list[float]
    first_layer: int | None
    worst_layer: int
    features: list[int]
    share_of_features: list[float]
    per_image: list[int]
    where: list[list[float]]

    @property
    def massive(self) -> bool:
        """Whether outliers hold a large share of the variance at any layer."""
        return self.first_layer is not None

    def threshold(self, layer: int) -> float:
        """Return the norm above which a patch is an outlier at a layer."""
        return self.factor * self.median_norm[layer]

    def most_per_image(self, share: float) -> int:
        """Return the least number that a share of the images do not exceed, of outliers at the worst layer."""
        return sorted(self.per_image)[math.ceil(share * self.n) - 1]


@torch.no_grad()
def find_outliers(flow: DepthFlow, images: ImageSource, factor: float = FACTOR) -> OutlierTokens:
    """Measure which patches have massive activations, and how much of the variance they hold.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, or what `load_images` returned; at least 2, of which at most 256 are used, in two passes.
    factor
        A patch is an outlier if its norm is above `factor` times the median norm of patches at its layer.
    """
    images = as_image_set(images).unsharded()
    norms, means = _norms_and_means(flow, images)
    n = norms.shape[1]
    if n < 2:
        raise DataError(f"outlier tokens are found on at least 2 images, not {n}")
    medians = norms.flatten(1).median(dim=1).values
    outlier = norms > factor * medians[:, None, None]  # layers, images, patches
    squares, by_feature = _squares(flow, images, means)
    share = (squares * outlier).sum(dim=(1, 2)) / squares.sum(dim=(1, 2)).clamp(min=1e-30)
    worst = int(share.argmax())
    held = by_feature[worst] / by_feature[worst].sum().clamp(min=1e-30)
    top = held.argsort(descending=True)[:FEATURES]
    above = (share >= LEAST_SHARE).nonzero().flatten().tolist()
    return OutlierTokens(
        n=n,
        factor=factor,
        median_norm=medians.tolist(),
        largest_norm=norms.flatten(1).amax(dim=1).tolist(),
        share_of_tokens=outlier.double().mean(dim=(1, 2)).tolist(),
        share_of_variance=share.tolist(),
        first_layer=above[0] if above else None,
        worst_layer=worst,
        features=top.tolist(),
        share_of_features=held[top].tolist(),
        per_image=outlier[worst].sum(dim=1).tolist(),
        where=outlier[worst].double().mean(dim=0).reshape(flow.layout.full_grid).tolist(),
    )


States = Float[Tensor, "batch patches width"]


def _passes(flow: DepthFlow, images: ImageSet) -> Iterator[tuple[int, States]]:
    """Yield the layer and the patches of every batch and layer."""
    first = 0
    for batch in images:
        pixels = batch.pixels[: MOST_IMAGES - first]
        if not len(pixels):
            return
        for layer, states in layers_of(flow, flow.embed(pixels)):
            yield layer, doubled(states[:, flow.layout.where("patch")])
        first += len(pixels)


def _norms_and_means(flow: DepthFlow, images: ImageSet) -> tuple[Tensor, list[Tensor]]:
    """Return the norms of all patches (layers, images, patches), and the mean of each position by layer."""
    norms: list[list[Tensor]] = [[] for _ in range(flow.depth + 1)]
    sums: list[Tensor] = []
    for layer, patches in _passes(flow, images):
        norms[layer].append(patches.norm(dim=-1))
        if len(sums) <= layer:
            sums.append(patches.sum(dim=0))
        else:
            sums[layer] += patches.sum(dim=0)
    if not sums:
        raise DataError("there are no images")
    whole = torch.stack([torch.cat(of_layer) for of_layer in norms])
    return whole, [total / whole.shape[1] for total in sums]


def _squares(flow: DepthFlow, images: ImageSet, means: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return squared distances from the mean of the position: (layers, images, patches), and (layers, features)."""
    by_token: list[list[Tensor]] = [[] for _ in means]
    by_feature = torch.zeros(len(means), flow.width, dtype=means[0].dtype, device=means[0].device)
    for layer, patches in _passes(flow, images):
        squares = (patches - means[layer]).square()
        by_token[layer].append(squares.sum(dim=-1))
        by_feature[layer] += squares.sum(dim=(0, 1))
    return torch.stack([torch.cat(of_layer) for of_layer in by_token]), by_feature
