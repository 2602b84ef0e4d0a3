"""How often a flow's own head is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from raptor.data.batch import Batch
from raptor.errors import DataError
from raptor.flow import DepthFlow, is_right, last_state
from raptor.resampling import BinnedMean


@dataclass(frozen=True)
class Accuracy:
    """Share of images whose most likely class is the right one, with a 95% bootstrap interval over images."""

    top1: float
    ci: tuple[float, float]
    n: int


def top1(flow: DepthFlow, batches: Iterable[Batch], seed: int = 0) -> Accuracy:
    """Measure the accuracy of a flow that has a head on images that have labels."""
    if flow.head is None:
        raise DataError("this model has no classifier, so that there is no accuracy to measure; give it one with head=")
    mean = BinnedMean()
    for batch in batches:
        if batch.label is None:
            raise DataError("these images have no labels, so that there is no accuracy to measure")
        with torch.no_grad():
            last = last_state(flow, flow.embed(batch.pixels))
            mean.add(is_right(flow.head(last), batch.label))
    low, high = mean.interval(seed=seed)
    return Accuracy(mean.mean().item(), (low.item(), high.item()), mean.n)
