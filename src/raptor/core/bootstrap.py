"""Streaming means over images with bootstrap intervals, in constant memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

BINS = 1024  # image i goes to bin i mod 1024; the bootstrap resamples bins
DRAWS = 1000
LEVEL = 0.95


class BinnedMean:
    """A running mean of one array per image, stored as sums over at most 1,024 bins.

    With up to 1,024 images, each bin is one image and the bootstrap is the usual one over images. Sums are float64, so
    the mean depends on the batch size only through the rounding of single-precision inputs.
    """

    def __init__(self) -> None:
        self.n = 0
        self._sums: Tensor | None = None
        self._counts = torch.zeros(BINS, dtype=torch.float64)

    def add(self, values: Float[Tensor, "batch *shape"]) -> None:
        """Add the arrays of the next images, one per image along the first axis."""
        values = values.detach().cpu().double()  # in this order: some devices lack double precision
        if self._sums is None:
            self._sums = torch.zeros(BINS, *values.shape[1:], dtype=torch.float64)
        index = torch.arange(self.n, self.n + len(values)) % BINS
        self._sums.index_add_(0, index, values)
        self._counts.index_add_(0, index, torch.ones(len(values), dtype=torch.float64))
        self.n += len(values)

    @property
    def _filled(self) -> tuple[Tensor, Tensor]:
        if self._sums is None:
            raise ValueError("no images were added")
        used = min(self.n, BINS)
        return self._sums[:used], self._counts[:used]

    def part(self, where: Any) -> BinnedMean:
        """Return the running mean of a part of each array, `array[where]`, with the same bins."""
        part = BinnedMean()
        part.n, part._counts = self.n, self._counts
        part._sums = None if self._sums is None else self._sums[(slice(None), *where)]
        return part

    def symmetrised(self) -> BinnedMean:
        """Return the running mean of each matrix and its transpose, averaged, with the same bins."""
        both = BinnedMean()
        both.n, both._counts = self.n, self._counts
        both._sums = None if self._sums is None else (self._sums + self._sums.mT) / 2
        return both

    def mean(self) -> Float[Tensor, " *shape"]:
        """Return the mean over all images."""
        sums, counts = self._filled
        return sums.sum(dim=0) / counts.sum()

    def folds(self, n_folds: int, seed: int = 0) -> tuple[Float[Tensor, "folds *shape"], Float[Tensor, "folds *shape"]]:
        """Split the bins at random into folds; return, for each, the mean outside the fold and the mean inside it."""
        sums, counts = self._filled
        order = torch.randperm(len(sums), generator=torch.Generator().manual_seed(seed))
        member = torch.zeros(n_folds, len(sums), dtype=torch.float64)
        member[torch.arange(len(sums)) % n_folds, order] = 1.0
        own = torch.einsum("fb,b...->f...", member, sums)
        own_counts = (member @ counts).reshape(-1, *[1] * (sums.ndim - 1))
        return (sums.sum(dim=0) - own) / (counts.sum() - own_counts), own / own_counts

    def resample(self, draws: int = DRAWS, seed: int = 0) -> Float[Tensor, "draws *shape"]:
        """Return the means of `draws` bootstrap resamples of the bins."""
        sums, counts = self._filled
        weights = _resampling_weights(len(sums), draws, seed)
        means = (weights @ sums.reshape(len(sums), -1)) / (weights @ counts)[:, None]
        return means.reshape(draws, *sums.shape[1:])

    def interval(
        self, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
    ) -> tuple[Float[Tensor, " *shape"], Float[Tensor, " *shape"]]:
        """Return the ends of the percentile bootstrap interval over images; NaN for a single image."""
        if self.n == 1:
            nothing = torch.full_like(self.mean(), torch.nan)
            return nothing, nothing
        return percentile_interval(self.resample(draws, seed), level)


@lru_cache(maxsize=4)
def _resampling_weights(n_bins: int, draws: int, seed: int) -> Float[Tensor, "draws bins"]:
    """Return how often each bin is drawn in each resample; one result has hundreds of intervals with the same draws."""
    picks = torch.randint(n_bins, (draws, n_bins), generator=torch.Generator().manual_seed(seed))
    weights = torch.zeros(draws, n_bins, dtype=torch.float64)
    return weights.scatter_add_(1, picks, torch.ones_like(picks, dtype=torch.float64))


def percentile_interval(
    resampled: Float[Tensor, "draws *shape"], level: float = LEVEL
) -> tuple[Float[Tensor, " *shape"], Float[Tensor, " *shape"]]:
    """Return the ends of the interval with the central share `level` of the resampled values, ignoring NaN."""
    tail = (1 - level) / 2
    return torch.nanquantile(resampled, tail, dim=0), torch.nanquantile(resampled, 1 - tail, dim=0)
