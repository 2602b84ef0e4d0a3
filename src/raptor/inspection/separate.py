"""Separate outliers: patches with massive activations as a token group of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from raptor.core.batches import BatchList, ImageSource
from raptor.core.flow import DepthFlow
from raptor.core.tokens import OUTLIER
from raptor.errors import DataError
from raptor.inspection.outliers import find_outliers
from raptor.models.separated import OutlierOrder, SeparatedOutliers
from raptor.runtime.notes import note
from raptor.runtime.options import SEPARATE

SHARE_OF_IMAGES = 0.95  # of images, whose outliers must all be in the group


@dataclass(frozen=True)
class OutlierGroup:
    """The rule by which patches are in the group `outlier`: in each image, the patches of largest norm at a layer.

    Parameters
    ----------
    layer
        Layer of the norms: the one at which outliers hold the largest share of the variance.
    count
        Number of patches in the group, the same in every image: the least that 95% of images do not exceed.
    share_of_images
        Share of images that have at most `count` outliers at that layer.
    share_of_group
        Share of the patches in the group that are outliers; the others are the patches of next largest norm, in images
        with fewer outliers.
    factor
        A patch is an outlier if its norm is above `factor` times the median norm of patches at the layer.
    n
        Number of images that layer and count were found on.
    """

    layer: int
    count: int
    share_of_images: float
    share_of_group: float
    factor: float
    n: int

    def __str__(self) -> str:
        return (
            f"Outliers: in each image, the {self.count} patches of largest norm at layer {self.layer} are the token "
            f"group '{OUTLIER}' and not part of 'patch'. {self.share_of_images:.0%} of {self.n} images have at most "
            f"{self.count} patches with a norm above {self.factor:g} times the median there; "
            f"{self.share_of_group:.0%} of the group have such a norm."
        )


@dataclass(frozen=True)
class Separation:
    """Outliers of a model, to be separated in it and in other flows of the same images.

    Parameters
    ----------
    group
        The rule, as in result.json.
    order
        The order of tokens, which all flows share.
    """

    group: OutlierGroup
    order: OutlierOrder

    def of(self, flow: DepthFlow) -> SeparatedOutliers:
        """Return a flow with the outliers as a token group of their own."""
        return SeparatedOutliers(flow, self.order)


def separation(outliers: str, decided_by: DepthFlow, images: ImageSource) -> Separation | None:
    """Find the outliers of a model; None if they stay with the other patches, or if it has none.

    Parameters
    ----------
    outliers
        `together` or `separate`.
    decided_by
        The model whose norms decide.
    images
        Batches of pixels, or what `load_images` returned; they are iterated over twice, 256 images at most.
    """
    if outliers != SEPARATE:
        return None
    if isinstance(images.batches if isinstance(images, BatchList) else images, Iterator):
        raise DataError("separate outliers need images that can be read more than once, such as a list of batches")
    found = find_outliers(decided_by, images)
    if not found.massive or decided_by.layout.n_patch == 1:
        note("there are no outliers to separate from other patches: this model has no massive activations")
        return None
    count = min(max(1, found.most_per_image(SHARE_OF_IMAGES)), decided_by.layout.n_patch - 1)
    within = [min(number, count) for number in found.per_image]
    group = OutlierGroup(
        layer=found.worst_layer,
        count=count,
        share_of_images=sum(number <= count for number in found.per_image) / found.n,
        share_of_group=sum(within) / (count * found.n),
        factor=found.factor,
        n=found.n,
    )
    return Separation(group, OutlierOrder(decided_by, group.layer, group.count))
