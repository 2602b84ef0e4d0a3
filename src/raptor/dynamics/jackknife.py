"""Jackknife over parts of the images, for statistics of sums: a bootstrap would repeat images, which lowers ranks."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from torch import Tensor

from raptor.core.bootstrap import LEVEL

BUDGET = 2**30  # bytes of sums in memory; decides the number of parts
MOST_PARTS, FEWEST_PARTS = 8, 4  # with fewer parts there is no interval
TOGETHER = 4  # consecutive images that go to the same part: fewer and larger matrix products


def n_parts(size: int) -> int:
    """Return into how many parts the images are divided, given the bytes that the sums of one part take."""
    return max(1, min(MOST_PARTS, BUDGET // size))


def part_of(first: int, images: int, parts: int) -> Int[Tensor, " images"]:
    """Return the part that each of some consecutive images belongs to, given the number of the first."""
    return torch.arange(first, first + images) // TOGETHER % parts


def n_used(images: int, parts: int) -> int:
    """Return how many parts have images; 0 where there are too few for an interval."""
    used = min(-(-images // TOGETHER), parts)
    return used if used >= FEWEST_PARTS else 0


def half_width(without: Float[Tensor, "parts *shape"]) -> Float[Tensor, " *shape"]:
    """Return half the width of the 95% interval; NaN where there are no parts.

    Parameters
    ----------
    without
        The statistic without each part, one after another.
    """
    parts = len(without)
    if not parts:
        return torch.full(without.shape[1:], torch.nan, dtype=without.dtype)
    wide = float(stdtrit(parts - 1, (1 + LEVEL) / 2)) * (parts - 1) ** 0.5
    return wide * without.std(dim=0, correction=0)
