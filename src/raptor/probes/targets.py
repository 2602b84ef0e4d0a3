"""What the annotations of the training images are like, from which tasks are built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from raptor.core.batches import Batch, LoadedImageSet
from raptor.data.annotations import UNLABELLED

SAMPLE = 2000  # training images that are read for constant baselines and the range of depths


@dataclass
class DepthRange:
    """Lowest, highest and mean depth of the pixels with a known depth; `high` is 0 if there is none."""

    low: float
    high: float
    mean: float


@dataclass
class Targets:
    """Statistics of the annotations of at most 2,000 training images; None where there is no such annotation.

    Parameters
    ----------
    labels
        Number of images by class.
    masks
        Number of pixels by class id, 0..255; 255 is unlabelled.
    depths
        Range and mean of the depths.
    n_mask_classes
        Number of pixel classes, where the dataset says so.
    eigen_crop
        Whether depth is reported on Eigen's crop of NYU Depth v2.
    """

    labels: Tensor | None = None
    masks: Tensor | None = None
    depths: DepthRange | None = None
    n_mask_classes: int = 0
    eigen_crop: bool = False

    @classmethod
    def of(cls, images: LoadedImageSet, eigen_crop: bool = False) -> Targets:
        """Read the annotations of training images."""
        found = cls(n_mask_classes=images.n_mask_classes or 0, eigen_crop=eigen_crop)
        total, count = 0.0, 0
        batches: Iterable[Batch] = images.sample(SAMPLE).unsharded()
        for batch in batches:
            if batch.label is not None:
                found.labels = _counts(found.labels, batch.label, len(images.classes or ()))
            if batch.mask is not None:
                found.masks = _counts(found.masks, batch.mask.flatten(), UNLABELLED + 1)
            if batch.depth is not None:
                known = batch.depth[batch.depth > 0].double()
                total, count = total + known.sum().item(), count + len(known)
                before = found.depths or DepthRange(float("inf"), 0.0, 0.0)
                low, high = before.low, before.high
                if len(known):
                    low, high = min(low, known.min().item()), max(high, known.max().item())
                found.depths = DepthRange(low, high, total / max(count, 1))
        return found


def _counts(before: Tensor | None, ids: Tensor, n: int) -> Tensor:
    found = torch.bincount(ids.cpu(), minlength=n)
    return found if before is None else before + found
