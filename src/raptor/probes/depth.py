"""Depth estimation: a linear head on concat(cls, patch) with a softmax over 256 evenly spaced depths."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import interpolate, linear

from raptor.errors import DataError, OptionError
from raptor.probes.features import Features
from raptor.probes.targets import SAMPLE, Targets
from raptor.probes.task import HeadTraining, Metric, Task, small_linear, task
from raptor.runtime.optional_imports import import_torchmetrics

BINS = 256
UPSAMPLED = 4  # factor by which logits are upsampled before the softmax
VARIANCE_FOCUS = 0.15  # 1 - lambda of the scale-invariant log loss, and its factor
LOSS_FACTOR = 10.0
TINY = 1e-8  # keeps the gradient of the square root finite at zero
MARGIN = 1e-3  # relative margin at both ends of the range of depths
# Rows and columns of the standard crop of the 480x640 images of NYU Depth v2 (Eigen et al. 2014).
EIGEN = (slice(45, 471), slice(41, 601))
EIGEN_SIZE = (480, 640)


class BinsHead(nn.Module):
    """A softmax over depth bins; the prediction is its mean, on four times the patch grid or at single pixels.

    Parameters
    ----------
    width
        Number of input features: those of a patch, and of cls if there is one.
    low, high
        Ends of the range of depths, which is divided into 256 equal bins.
    """

    centres: Tensor

    def __init__(self, width: int, low: float, high: float):
        super().__init__()
        self.linear = small_linear(width, BINS)
        edges = torch.linspace(low, high, BINS + 1)
        self.register_buffer("centres", (edges[1:] + edges[:-1]) / 2)

    def forward(self, features: Features) -> Float[Tensor, "batch rows columns"]:
        """Return the predicted depths."""
        assert features.patch is not None
        weight, bias = self.linear.weight, self.linear.bias
        if features.cls is None:
            logits = linear(features.patch, weight, bias)
        else:
            # The layer on concat(cls, patch) in two parts, so that the cls part is computed once per image.
            of_cls, of_patch = weight.chunk(2, dim=1)
            logits = linear(features.patch, of_patch) + linear(features.cls, of_cls, bias)[:, None, None]
        if not features.at_pixels:
            # A linear layer commutes with bilinear upsampling, and it is cheaper on the patch grid.
            wide = interpolate(logits.movedim(-1, 1), scale_factor=UPSAMPLED, mode="bilinear", align_corners=False)
            logits = wide.movedim(1, -1)
        return logits.softmax(dim=-1) @ self.centres


@task("depth", needs="depths", order=3)
class Depth(Task):
    """Depth estimation, measured by RMSE, relative error and the share of pixels within 25%, averaged over images.

    Parameters
    ----------
    low, high, mean
        Range and mean of the training depths.
    eigen_crop
        Report on Eigen's crop; images are 480x640, or padded to a larger size.
    """

    target = "depth"
    reads = frozenset({"cls", "patch"})
    metrics = (
        Metric("rmse", "RMSE", higher_is_better=False),
        Metric("abs_rel", "relative error", higher_is_better=False),
        Metric("delta1", "delta1", ".1%"),
    )
    training = HeadTraining(epochs=25, batch_size=128, lrs=(1e-4, 1e-3, 1e-2, 1e-1))

    def __init__(self, low: float, high: float, mean: float, eigen_crop: bool = False):
        self.low, self.high, self.mean, self.eigen_crop = low, high, mean, eigen_crop

    @classmethod
    def from_targets(cls, targets: Targets) -> Depth:
        """Build the task from the range of the training depths."""
        depths = targets.depths
        assert depths is not None
        if depths.high == 0.0:
            raise DataError(f"no pixel of {SAMPLE} training images has a depth")
        return cls(depths.low * (1 - MARGIN), depths.high * (1 + MARGIN), depths.mean, targets.eigen_crop)

    def head(self, like: Features) -> nn.Module:
        """Return a head with predictions close to the middle of the range."""
        assert like.patch is not None
        width = like.patch.shape[-1] * (1 if like.cls is None else 2)
        return BinsHead(width, self.low, self.high).to(like.patch.device)

    def shown(self, features: Features) -> Features:
        """Return a random sample of pixels of each image."""
        return features.drawn(self.target)

    def constant(self, like: Features) -> Tensor:
        """Return the mean training depth at every pixel."""
        return like.mean.new_full((len(like), 1, 1), self.mean)

    def loss(
        self, prediction: Float[Tensor, "batch rows columns"], truth: Float[Tensor, "batch height width"]
    ) -> Float[Tensor, ""]:
        """Return the scale-invariant log loss of AdaBins over the pixels with a known depth."""
        known = truth > 0
        if known.sum() < 2:
            return prediction.sum() * 0.0
        error = _at(prediction, truth)[known].log() - truth[known].log()
        return LOSS_FACTOR * (error.var() + VARIANCE_FOCUS * error.mean().square() + TINY).sqrt()

    def scores(
        self, prediction: Float[Tensor, "batch rows columns"], truth: Float[Tensor, "batch height width"]
    ) -> Float[Tensor, "batch 4"]:
        """Return the three metrics of each image and 1; or four zeros for an image without any known depth."""
        functional = import_torchmetrics()
        found, known = _at(prediction, truth), self._counted(truth)
        rows = []
        for one, true, where in zip(found, truth, known, strict=True):
            guess, fact = one[where], true[where]
            if not len(fact):
                rows.append(truth.new_zeros(4))
                continue
            rmse = functional.mean_squared_error(guess, fact, squared=False)
            relative = functional.mean_absolute_percentage_error(guess, fact)
            within = (torch.maximum(guess / fact, fact / guess) < 1.25).float().mean()
            rows.append(torch.stack([rmse, relative, within, torch.ones_like(rmse)]))
        return torch.stack(rows)

    def summary(self, mean: Float[Tensor, "*draws 4"]) -> dict[str, Tensor]:
        """Return the metrics, averaged over the images with a known depth."""
        return dict(zip(("rmse", "abs_rel", "delta1"), (mean[..., :3] / mean[..., 3:]).unbind(-1), strict=True))

    def _counted(self, truth: Tensor) -> Tensor:
        known = truth > 0
        if not self.eigen_crop:
            return known
        if any(size < full for size, full in zip(truth.shape[-2:], EIGEN_SIZE, strict=True)):
            raise DataError(f"Eigen's crop needs images of 480x640 or more, not {truth.shape[-2]}x{truth.shape[-1]}")
        inside = torch.zeros_like(known)
        top, left = ((size - full) // 2 for size, full in zip(truth.shape[-2:], EIGEN_SIZE, strict=True))
        rows, columns = (slice(part.start + by, part.stop + by) for part, by in zip(EIGEN, (top, left), strict=True))
        inside[:, rows, columns] = True
        return known & inside


def _at(depth: Tensor, truth: Tensor) -> Tensor:
    """Resize predicted depths to the size of the ground truth."""
    return interpolate(depth[:, None], tuple(truth.shape[-2:]), mode="bilinear", align_corners=False)[:, 0]


def check_eigen_crop(image_size: tuple[int, int], fit: str, eigen_crop: bool) -> None:
    """Raise an error if Eigen's crop is asked for, but images are not padded to at least 480x640.

    Parameters
    ----------
    image_size
        Height and width of the model's input.
    fit
        How images get that size: `own`, `squash` or `pad`.
    eigen_crop
        Whether Eigen's crop is asked for.
    """
    small = any(size < full for size, full in zip(image_size, EIGEN_SIZE, strict=True))
    if eigen_crop and (fit != "pad" or small):
        raise OptionError("--eigen-crop needs images at their original size: use --fit pad --image-size 490x644")
