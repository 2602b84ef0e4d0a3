"""Which class each pixel has: a linear head on patch tokens, its logits brought to the pixels bilinearly."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

from raptor.data.annotations import UNLABELLED
from raptor.errors import DataError
from raptor.hub import import_torchmetrics
from raptor.probes.features import Features
from raptor.probes.task import Task, Training, small_linear


class PatchHead(nn.Module):
    """One linear map of every patch, (batch, classes, rows, columns)."""

    def __init__(self, width: int, n_classes: int):
        super().__init__()
        self.linear = small_linear(width, n_classes)

    def forward(self, features: Features) -> Float[Tensor, "batch classes rows columns"]:
        """Return logits on the grid of patches."""
        assert features.patch is not None
        return self.linear(features.patch).movedim(-1, 1)


class Segment(Task):
    """Mean intersection over union, and the share of pixels that are right; unlabelled pixels count for nothing.

    Parameters
    ----------
    frequency
        Share of each class among the labelled pixels of the training images.
    """

    name, target = "segment", "mask"
    reads = frozenset({"patch"})
    metrics = ("miou", "pixel_accuracy")
    best = ("miou", 1.0)
    training = Training(epochs=10, batch_size=32, rates=(1e-3, 1e-2, 1e-1, 1.0))

    def __init__(self, frequency: Float[Tensor, " classes"]):
        self.frequency = frequency

    def head(self, like: Features) -> nn.Module:
        """Return a head that starts at chance."""
        assert like.patch is not None
        return PatchHead(like.patch.shape[-1], len(self.frequency)).to(like.patch.device)

    def shown(self, features: Features) -> Features:
        """Return some pixels of each image."""
        return features.drawn(self.target)

    def constant(self, like: Features) -> Tensor:
        """Return the frequencies everywhere."""
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
        """Return, of each image and class, the pixels that are rightly of it, wrongly of it, wrongly not of it."""
        self._check(truth)
        confusion = import_torchmetrics().classification.multiclass_confusion_matrix
        # One image at a time: logits of many classes at all pixels are large.
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
        """Return both metrics; a class that is neither there nor predicted has no intersection over union."""
        right, wrongly, missed = mean.unbind(-2)
        union = right + wrongly + missed
        iou = torch.where(union > 0, right / union, torch.nan)
        return {"miou": iou.nanmean(dim=-1), "pixel_accuracy": right.sum(dim=-1) / (right + missed).sum(dim=-1)}

    def _check(self, truth: Tensor) -> None:
        odd = truth[(truth != UNLABELLED) & (truth >= len(self.frequency))]
        if odd.numel():
            raise DataError(
                f"a mask has the class id {int(odd[0])}, but the training masks have classes below "
                f"{len(self.frequency)}; list all classes in classes.txt beside the images"
            )


def _at(logits: Tensor, pixels: Tensor) -> Tensor:
    """Bring logits to the size of a mask."""
    return interpolate(logits, tuple(pixels.shape[-2:]), mode="bilinear", align_corners=False)
