"""Mean and robust spread of a teacher's states over the first images, which measures of fidelity are taken about."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import Batch
from raptor.core.flow import DepthFlow, layers_of
from raptor.evaluation.measures import States
from raptor.evaluation.token_means import at_least_single
from raptor.runtime.device import doubled

CENTRE_IMAGES = 64  # first images, about whose mean squares are summed
SPREAD_IMAGES = 8  # first images, over whose tokens the robust spread of features is measured
MAD_TO_STD = 1.482602218505602  # standard deviation of a normal variable over its median absolute deviation


def pixels_of_batch(batch: Batch | Tensor) -> Tensor:
    """Return the pixels of a batch."""
    return batch if isinstance(batch, Tensor) else batch.pixels


def first_images(
    teacher: DepthFlow, batches: Iterator[Batch | Tensor]
) -> tuple[list[Batch | Tensor], list[Tensor], list[Tensor]]:
    """Take the first batches; return them, with the mean and the robust spread of the states at the layers 0..L.

    Both are over the same number of images whatever the batch size is: intervals depend on the point that squares are
    taken about.
    """
    taken: list[Batch | Tensor] = []
    sums: list[Tensor] = []
    few: list[list[Tensor]] = [[] for _ in range(teacher.depth + 1)]
    n = 0
    while n < CENTRE_IMAGES and (batch := next(batches, None)) is not None:
        taken.append(batch)
        some = pixels_of_batch(batch)[: CENTRE_IMAGES - n]
        for layer, y in layers_of(teacher, teacher.embed(some)):
            added = doubled(y).sum(dim=0)
            if n == 0:
                sums.append(added)
            else:
                sums[layer] += added
            few[layer].append(at_least_single(y[: max(0, SPREAD_IMAGES - n)]))
        n += len(some)
    return taken, [total / n for total in sums], [_robust_spread(torch.cat(states)) for states in few if states]


def _robust_spread(states: States) -> Float[Tensor, " width"]:
    """Return 1.4826 times the median absolute deviation of each feature: the standard deviation of a normal one."""
    tokens = states.flatten(0, 1)
    spread = MAD_TO_STD * _median((tokens - _median(tokens)).abs())
    # A feature that hardly varies would outweigh all others.
    return spread.clamp(min=max(1e-12, 0.01 * float(spread.median())))


def _median(tokens: Float[Tensor, "tokens width"]) -> Float[Tensor, " width"]:
    """Return the median of each feature; torch's own returns the lower of two middle values."""
    values, n = tokens.sort(dim=0).values, len(tokens)
    return (values[(n - 1) // 2] + values[n // 2]) / 2
