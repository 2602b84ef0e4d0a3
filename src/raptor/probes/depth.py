"""How far each pixel is: a linear head on concat(cls, patch) that weighs 256 evenly spaced depths."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import interpolate, linear

from raptor.errors import DataError
from raptor.hub import import_torchmetrics
from raptor.probes.features import Features
from raptor.probes.task import Task, Training, small_linear

BINS = 256
UPSAMPLED = 4  # logits are brought to four times the grid of patches before the softmax
VARIANCE_FOCUS = 0.15  # 1 - lambda of the scale-invariant log loss, and its factor
LOSS_FACTOR = 10.0
TINY = 1e-8  # a root has no gradient at zero, where answers are perfect
# Rows and columns of a 480x640 image of NYU Depth v2 on which everybody reports (Eigen et al. 2014).
EIGEN = (slice(45, 471), slice(41, 601))
EIGEN_SIZE = (480, 640)


class BinsHead(nn.Module):
    """A softmax over depths whose mean is the answer, on four times the grid of patches or at single pixels.

    Parameters
    ----------
    width
        Of what it reads: cls, where there is one, and patch.
    low, high
        Ends of the range of depths, which is parted into bins; their centres are weighed.
    """

    centres: Tensor

    def __init__(self, width: int, low: float, high: float):
        super().__init__()
        self.linear = small_linear(width, BINS)
        edges = torch.linspace(low, high, BINS + 1)
        self.register_buffer("centres", (edges[1:] + edges[:-1]) / 2)

    def forward(self, features: Features) -> Float[Tensor, "batch rows columns"]:
        """Return depths."""
        assert features.patch is not None
        weight, bias = self.linear.weight, self.linear.bias
        if features.cls is None:
            logits = linear(features.patch, weight, bias)
        else:
            # The map of concat(cls, patch) in two parts: that of cls is made once an image, not at every pixel.
            of_cls, of_patch = weight.chunk(2, dim=1)
            logits = linear(features.patch, of_patch) + linear(features.cls, of_cls, bias)[:, None, None]
        if not features.at_pixels:
            # A linear map and bilinear upsampling may change places: the map is made where there are fewer tokens.
            wide = interpolate(logits.movedim(-1, 1), scale_factor=UPSAMPLED, mode="bilinear", align_corners=False)
            logits = wide.movedim(1, -1)
        return logits.softmax(dim=-1) @ self.centres


class Depth(Task):
    """Root mean squared error, relative error and the share of pixels within 25%, of each image and then averaged.

    Parameters
    ----------
    low, high, mean
        Of the training depths.
    eigen_crop
        Report on Eigen's crop alone, where images are of 480x640 or padded to more.
    """

    name, target = "depth", "depth"
    reads = frozenset({"cls", "patch"})
    metrics = ("rmse", "abs_rel", "delta1")
    best = ("rmse", -1.0)
    training = Training(epochs=25, batch_size=128, rates=(1e-3, 1e-2, 1e-1))

    def __init__(self, low: float, high: float, mean: float, eigen_crop: bool = False):
        self.low, self.high, self.mean, self.eigen_crop = low, high, mean, eigen_crop

    def head(self, like: Features) -> nn.Module:
        """Return a head that starts near the middle of the range."""
        assert like.patch is not None
        width = like.patch.shape[-1] * (1 if like.cls is None else 2)
        return BinsHead(width, self.low, self.high).to(like.patch.device)

    def shown(self, features: Features) -> Features:
        """Return some pixels of each image."""
        return features.drawn(self.target)

    def constant(self, like: Features) -> Tensor:
        """Return the mean depth everywhere."""
        return like.mean.new_full((len(like), 1, 1), self.mean)

    def loss(
        self, prediction: Float[Tensor, "batch rows columns"], truth: Float[Tensor, "batch height width"]
    ) -> Float[Tensor, ""]:
        """Return the scale-invariant log loss of AdaBins on the pixels whose depth is known."""
        known = truth > 0
        if known.sum() < 2:
            return prediction.sum() * 0.0
        error = _at(prediction, truth)[known].log() - truth[known].log()
        return LOSS_FACTOR * (error.var() + VARIANCE_FOCUS * error.mean().square() + TINY).sqrt()

    def scores(
        self, prediction: Float[Tensor, "batch rows columns"], truth: Float[Tensor, "batch height width"]
    ) -> Float[Tensor, "batch 4"]:
        """Return the three errors of each image, and 1; all 0 of an image without a known depth, which counts not."""
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
        """Return the three means over the images that count."""
        return dict(zip(self.metrics, (mean[..., :3] / mean[..., 3:]).unbind(-1), strict=True))

    def _counted(self, truth: Tensor) -> Tensor:
        known = truth > 0
        if not self.eigen_crop:
            return known
        if any(size < full for size, full in zip(truth.shape[-2:], EIGEN_SIZE, strict=True)):
            raise DataError(f"Eigen's crop is of images of 480x640, not of {truth.shape[-2]}x{truth.shape[-1]}")
        inside = torch.zeros_like(known)
        top, left = ((size - full) // 2 for size, full in zip(truth.shape[-2:], EIGEN_SIZE, strict=True))
        rows, columns = (slice(part.start + by, part.stop + by) for part, by in zip(EIGEN, (top, left), strict=True))
        inside[:, rows, columns] = True
        return known & inside


def _at(depth: Tensor, truth: Tensor) -> Tensor:
    """Bring depths to the size of a map of depths."""
    return interpolate(depth[:, None], tuple(truth.shape[-2:]), mode="bilinear", align_corners=False)[:, 0]
