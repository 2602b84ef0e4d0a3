"""How often a flow's own head is right, and whether that can be told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raptor.errors import DataError
from raptor.flow import DepthFlow, Head, is_right, last_state
from raptor.resampling import BinnedMean


@dataclass(frozen=True)
class Accuracy:
    """Share of images whose most likely class is the right one, with a 95% bootstrap interval over images."""

    top1: float
    ci: tuple[float, float]
    n: int


@torch.no_grad()
def no_accuracy(flow: DepthFlow, batch: Any, classes: Sequence[str] | None = None) -> str | None:
    """Return why there is no accuracy to measure on a batch, or None where there is one.

    With the names of the images' classes, the classifier must have as many.
    """
    if flow.head is None:
        return "the model has no classifier"
    label = getattr(batch, "label", None)
    if label is None or bool((label < 0).any()):
        return "the images have no labels"
    if classes is not None:
        n = flow.head(flow.embed(batch.pixels[:1])).shape[1]
        if len(classes) != n:
            return f"the classifier has {n} classes, the images {len(classes)}"
    return None


def head_and_label(flow: DepthFlow, batch: Any) -> tuple[Head, Tensor]:
    """Return the classifier of a flow and the labels of a batch; raise where one is missing."""
    if (reason := no_accuracy(flow, batch)) is not None:
        hint = "; give it one with head=" if flow.head is None else ""
        raise DataError(f"{reason}, so that there is no accuracy to measure{hint}")
    assert flow.head is not None
    return flow.head, batch.label


@torch.no_grad()
def top1(flow: DepthFlow, batches: Iterable[Any], seed: int = 0) -> Accuracy:
    """Measure the accuracy of a flow that has a head on images that have labels."""
    mean = BinnedMean()
    for batch in batches:
        head, label = head_and_label(flow, batch)
        mean.add(is_right(head(last_state(flow, flow.embed(batch.pixels))), label))
    low, high = mean.interval(seed=seed)
    return Accuracy(mean.mean().item(), (low.item(), high.item()), mean.n)
