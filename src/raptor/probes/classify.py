"""Image classification: a linear head on concat(cls, mean patch)."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from raptor.errors import TrainingError
from raptor.probes.features import Features
from raptor.probes.targets import Targets
from raptor.probes.task import HeadTraining, Metric, Task, small_linear, task
from raptor.runtime.optional_imports import import_torchmetrics


class PooledHead(nn.Module):
    """A linear layer on the pooled features of an image."""

    def __init__(self, width: int, n_classes: int):
        super().__init__()
        self.linear = small_linear(width, n_classes)

    def forward(self, features: Features) -> Float[Tensor, "batch classes"]:
        """Return the logits."""
        return self.linear(features.pooled)


@task("classify", needs="labels", order=1)
class Classify(Task):
    """Image classification, measured by top-1 and top-5 accuracy.

    Parameters
    ----------
    frequency
        Share of each class among the training images.
    """

    target = "label"
    reads = frozenset({"cls", "mean", "own"})
    metrics = (Metric("top1", "top-1", ".1%"), Metric("top5", "top-5", ".1%"))
    training = HeadTraining(epochs=15, batch_size=512, lrs=(1e-4, 1e-3, 1e-2))

    def __init__(self, frequency: Float[Tensor, " classes"]):
        self.frequency = frequency

    @classmethod
    def from_targets(cls, targets: Targets) -> Classify:
        """Build the task from the class counts of the training images."""
        assert targets.labels is not None
        return cls(targets.labels / targets.labels.sum())

    def head(self, like: Features) -> nn.Module:
        """Return a head with predictions close to uniform."""
        return PooledHead(like.pooled.shape[1], len(self.frequency)).to(like.mean.device)

    def constant(self, like: Features) -> Tensor:
        """Return the class frequencies, which predict the most common class."""
        return self.frequency.to(like.mean).expand(len(like), -1)

    def loss(self, prediction: Float[Tensor, "batch classes"], truth: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
        """Return the cross-entropy."""
        return cross_entropy(prediction, truth)

    def scores(
        self, prediction: Float[Tensor, "batch classes"], truth: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 2"]:
        """Return, for each image, whether its class is the first prediction and whether it is among the first five."""
        accuracy = import_torchmetrics().classification.multiclass_accuracy
        n = prediction.shape[1]
        options: dict[str, Any] = {"num_classes": n, "average": "micro", "multidim_average": "samplewise"}
        found = [accuracy(prediction[..., None], truth[:, None], top_k=min(k, n), **options) for k in (1, 5)]
        return torch.stack(found, dim=1)

    def answers_as(self, own: Tensor | None) -> bool:
        """Return whether the pretrained head has as many classes."""
        return own is not None and own.shape[1] == len(self.frequency)

    def summary(self, mean: Float[Tensor, "*draws 2"]) -> dict[str, Tensor]:
        """Return both accuracies."""
        return dict(zip(("top1", "top5"), mean.unbind(-1), strict=True))


def read_own_head(
    inputs: Float[Tensor, "images features"], logits: Float[Tensor, "images classes"], head: PooledHead
) -> float:
    """Initialise a head from the model's pretrained head, by least squares of its logits on the pooled features.

    This is exact if the pretrained head is linear in cls and mean patch.

    Parameters
    ----------
    inputs
        Pooled features, which the head reads.
    logits
        Logits of the pretrained head for the same images.
    head
        The head to initialise.

    Returns
    -------
    float
        Share of the logits' variance that the head explains on every fifth image, which the fit leaves out; NaN for
        fewer than five images.
    """
    inputs, logits = inputs.cpu().double(), logits.cpu().double()
    if not (inputs.isfinite().all() and logits.isfinite().all()):
        raise TrainingError("the features of this model are not finite, so no head can be fitted: check its weights")
    held_out = torch.arange(len(inputs)) % 5 == 4
    at_input, at_logits = inputs[~held_out].mean(dim=0), logits[~held_out].mean(dim=0)
    # After a LayerNorm the features sum to a constant, so the solution is not unique: gelsd takes the smallest.
    solved = torch.linalg.lstsq(inputs[~held_out] - at_input, logits[~held_out] - at_logits, driver="gelsd").solution
    bias = at_logits - at_input @ solved
    with torch.no_grad():
        head.linear.weight.copy_(solved.T)
        head.linear.bias.copy_(bias)
    left, there = logits - inputs @ solved - bias, logits - at_logits
    return 1 - (left[held_out].square().sum() / there[held_out].square().sum()).item()
