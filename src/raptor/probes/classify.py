"""Which class: a linear head on concat(cls, mean patch)."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from raptor.errors import TrainingError
from raptor.hub import import_torchmetrics
from raptor.probes.features import Features
from raptor.probes.task import Task, Training, small_linear


class PooledHead(nn.Module):
    """One linear map of the pooled image."""

    def __init__(self, width: int, n_classes: int):
        super().__init__()
        self.linear = small_linear(width, n_classes)

    def forward(self, features: Features) -> Float[Tensor, "batch classes"]:
        """Return logits."""
        return self.linear(features.pooled)


class Classify(Task):
    """Top-1 and top-5.

    Parameters
    ----------
    frequency
        Share of each class among the training images.
    """

    name, target = "classify", "label"
    reads = frozenset({"cls", "mean", "own"})
    metrics = ("top1", "top5")
    best = ("top1", 1.0)
    training = Training(epochs=15, batch_size=512, rates=(1e-4, 1e-3, 1e-2))

    def __init__(self, frequency: Float[Tensor, " classes"]):
        self.frequency = frequency

    def head(self, like: Features) -> nn.Module:
        """Return a head that starts at chance."""
        return PooledHead(like.pooled.shape[1], len(self.frequency)).to(like.mean.device)

    def constant(self, like: Features) -> Tensor:
        """Return the frequencies, whose largest is the commonest class."""
        return self.frequency.to(like.mean).expand(len(like), -1)

    def loss(self, prediction: Float[Tensor, "batch classes"], truth: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
        """Return the cross-entropy."""
        return cross_entropy(prediction, truth)

    def scores(
        self, prediction: Float[Tensor, "batch classes"], truth: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 2"]:
        """Return whether each image's class is the likeliest, and whether it is among the five likeliest."""
        accuracy = import_torchmetrics().classification.multiclass_accuracy
        n = prediction.shape[1]
        options: dict[str, Any] = {"num_classes": n, "average": "micro", "multidim_average": "samplewise"}
        found = [accuracy(prediction[..., None], truth[:, None], top_k=min(k, n), **options) for k in (1, 5)]
        return torch.stack(found, dim=1)

    def answers_as(self, own: Tensor | None) -> bool:
        """Whether there are logits, one a class."""
        return own is not None and own.shape[1] == len(self.frequency)

    def summary(self, mean: Float[Tensor, "*draws 2"]) -> dict[str, Tensor]:
        """Return both shares."""
        return dict(zip(self.metrics, mean.unbind(-1), strict=True))


def read_own_head(
    inputs: Float[Tensor, "images features"], logits: Float[Tensor, "images classes"], head: PooledHead
) -> float:
    """Start a head from the model's own, by least squares of its logits on what the head reads.

    Exact where the model's head is linear in cls and mean patch. Returns the share of the logits' variance that is
    explained, on every fifth image, which the map is not read from; no number where there are fewer than five.
    """
    inputs, logits = inputs.cpu().double(), logits.cpu().double()
    if not (inputs.isfinite().all() and logits.isfinite().all()):
        raise TrainingError("features of this model are not finite, so that no head can be fitted: check its weights")
    held_out = torch.arange(len(inputs)) % 5 == 4
    at_input, at_logits = inputs[~held_out].mean(dim=0), logits[~held_out].mean(dim=0)
    # Norms make features sum to a constant: of all maps that fit, the smallest is taken.
    solved = torch.linalg.lstsq(inputs[~held_out] - at_input, logits[~held_out] - at_logits, driver="gelsd").solution
    bias = at_logits - at_input @ solved
    with torch.no_grad():
        head.linear.weight.copy_(solved.T)
        head.linear.bias.copy_(bias)
    left, there = logits - inputs @ solved - bias, logits - at_logits
    return 1 - (left[held_out].square().sum() / there[held_out].square().sum()).item()
