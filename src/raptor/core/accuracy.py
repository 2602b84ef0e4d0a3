"""Top-1 accuracy of a flow's classifier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from raptor.core.batches import Batch, as_batch
from raptor.core.bootstrap import BinnedMean
from raptor.core.flow import DepthFlow, Head, is_right, last_state
from raptor.errors import DataError


@dataclass(frozen=True)
class Accuracy:
    """Top-1 accuracy as a share, its 95% bootstrap interval over images, and the number of images."""

    top1: float
    ci: tuple[float, float]
    n: int


@torch.no_grad()
def no_accuracy(flow: DepthFlow, batch: Batch, classes: Sequence[str] | None = None) -> str | None:
    """Return why accuracy cannot be measured on a batch, or None if it can.

    Parameters
    ----------
    flow
        The model.
    batch
        Images of the dataset.
    classes
        Class names of the dataset, if known; the classifier must have as many outputs.
    """
    if flow.head is None:
        return "the model has no classifier"
    if batch.label is None or bool((batch.label < 0).any()):
        return "this dataset has no labels"
    if classes is not None:
        n = flow.head(flow.embed(batch.pixels[:1])).shape[1]
        if len(classes) != n:
            return f"the classifier has {n} classes, but the dataset has {len(classes)}"
    return None


def head_and_label(flow: DepthFlow, batch: Batch) -> tuple[Head, Tensor]:
    """Return the classifier of a flow and the labels of a batch; raise a DataError if one is missing."""
    if (reason := no_accuracy(flow, batch)) is not None:
        hint = "; add one with head= (--head)" if flow.head is None else ""
        raise DataError(f"accuracy cannot be measured: {reason}{hint}")
    assert flow.head is not None
    assert batch.label is not None
    return flow.head, batch.label


@torch.no_grad()
def top1(flow: DepthFlow, batches: Iterable[Batch | Tensor], seed: int = 0) -> Accuracy:
    """Measure the top-1 accuracy of a flow with a classifier on labelled images.

    Parameters
    ----------
    flow
        A model with a classifier.
    batches
        Batches with labels.
    seed
        Seed of the bootstrap.
    """
    mean = BinnedMean()
    for batch in map(as_batch, batches):
        head, label = head_and_label(flow, batch)
        mean.add(is_right(head(last_state(flow, flow.embed(batch.pixels))), label))
    low, high = mean.interval(seed=seed)
    return Accuracy(mean.mean().item(), (low.item(), high.item()), mean.n)
