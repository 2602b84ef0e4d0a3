"""Semantic segmentation: a linear head on patch tokens, with logits upsampled bilinearly to the pixels."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

from raptor.data.annotations import UNLABELLED
from raptor.errors import DataError
from raptor.probes.features import Features
from raptor.probes.targets import SAMPLE, Targets
from raptor.probes.task import HeadTraining, Metric, Task, small_linear, task
from raptor.runtime.optional_imports import import_torchmetrics


class PatchHead(nn.Module):
    """A linear layer on every patch token."""

    def __init__(self, width: int, n_classes: int):
        super().__init__()
        self.linear = small_linear(width, n_classes)

    def forward(self, features: Features) -> Float[Tensor, "batch classes rows columns"]:
        """Return the logits on the patch grid."""
        assert features.patch is not None
        return self.linear(features.patch).movedim(-1, 1)


@task("segment", needs="masks", order=2)
class Segment(Task):
    """Semantic segmentation, measured by mean IoU and pixel accuracy; unlabelled pixels are ignored.

    Parameters
    ----------
    frequency
        Share of each class among the labelled pixels of the training images.
    """

    target = "mask"
    reads = frozenset({"patch"})
    metrics = (Metric("miou", "mIoU"), Metric("pixel_accuracy", form=".1%"))
    training = HeadTraining(epochs=10, batch_size=32, lrs=(1e-3, 1e-2, 1e-1, 1.0))

    def __init__(self, frequency: Float[Tensor, " classes"]):
        self.frequency = frequency

    @classmethod
    def from_targets(cls, targets: Targets) -> Segment:
        """Build the task from the class counts of the training pixels."""
        assert targets.masks is not None
        labelled = targets.masks[:UNLABELLED]
        if not labelled.any():
            raise DataError(f"all pixels of {SAMPLE} training masks are unlabelled")
        n = targets.n_mask_classes or int(labelled.nonzero().max()) + 1
        return cls(labelled[:n] / labelled.sum())

    def head(self, like: Features) -> nn.Module:
        """Return a head with predictions close to uniform."""
        assert like.patch is not None
        return PatchHead(like.patch.shape[-1], len(self.frequency)).to(like.patch.device)

    def shown(self, features: Features) -> Features:
        """Return a random sample of pixels of each image."""
        return features.drawn(self.target)

    def constant(self, like: Features) -> Tensor:
        """Return the class frequencies at every pixel."""
        return self.frequency.to(like.mean)[None, :, None, None].expand(len(like), -1, 1, 1)

    def loss(
        self, prediction: Float[Tensor, "batch classes rows columns"], truth: Int[Tensor, "batch height width"]
    ) -> Float[Tensor, ""]:
        """Return the cross-entropy of the labelled pixels."""
        self._check(truth)
        total = cross_entropy(_at(prediction, truth), truth, ignore_index=UNLABELLED, reduction="sum")
        return total / (truth != UNLABELLED).sum().clamp(min=1)

    def scores(
        self, prediction: Float[Tensor, "batch classes rows columns"], truth: Int[Tensor, "batch height width"]
    ) -> Float[Tensor, "batch 3 classes"]:
        """Return the number of true positive, false positive and false negative pixels by image and class."""
        self._check(truth)
        confusion = import_torchmetrics().classification.multiclass_confusion_matrix
        # One image at a time, because upsampled logits of many classes are large.
        tables = torch.stack(
            [
                confusion(
                    _at(one[None], true).argmax(dim=1)[0], true, len(self.frequency), ignore_index=UNLABELLED,
                    validate_args=False,
                )
                for one, true in zip(prediction, truth, strict=True)
            ]
        ).cpu().double()  # fmt: skip
        right = tables.diagonal(dim1=1, dim2=2)
        return torch.stack([right, tables.sum(dim=1) - right, tables.sum(dim=2) - right], dim=1)

    def summary(self, mean: Float[Tensor, "*draws 3 classes"]) -> dict[str, Tensor]:
        """Return both metrics; classes that are neither present nor predicted are left out of the mean IoU."""
        right, wrongly, missed = mean.unbind(-2)
        union = right + wrongly + missed
        iou = torch.where(union > 0, right / union, torch.nan)
        return {"miou": iou.nanmean(dim=-1), "pixel_accuracy": right.sum(dim=-1) / (right + missed).sum(dim=-1)}

    def _check(self, truth: Tensor) -> None:
        odd = truth[(truth != UNLABELLED) & (truth >= len(self.frequency))]
        if odd.numel():
            raise DataError(
                f"a mask has the class id {int(odd[0])}, but the training masks have ids below {len(self.frequency)}; "
                "list all classes in classes.txt next to the images"
            )


def _at(logits: Tensor, pixels: Tensor) -> Tensor:
    """Upsample logits to the size of a mask."""
    return interpolate(logits, tuple(pixels.shape[-2:]), mode="bilinear", align_corners=False)
