"""Streamed means and their bootstrap against NumPy, SciPy and normal theory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from raptor.core.bootstrap import BINS, BinnedMean


def filled(values: torch.Tensor, batch: int) -> BinnedMean:
    mean = BinnedMean()
    for start in range(0, len(values), batch):
        mean.add(values[start : start + batch])
    return mean


@pytest.mark.parametrize("n", [5, BINS, 2 * BINS + 77])
def test_mean_is_the_mean_whatever_the_batches(n):
    values = torch.randn(n, 3, 2, generator=torch.Generator().manual_seed(0)) * 7 + 100
    expected = values.double().mean(dim=0)
    for batch in (1, 32, n):
        torch.testing.assert_close(filled(values, batch).mean(), expected, rtol=1e-12, atol=0)


def test_intervals_equal_scipys_up_to_their_own_noise():
    values = np.random.default_rng(0).exponential(size=300)
    low, high = filled(torch.from_numpy(values), 32).interval(draws=20000)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20000, rng=1).confidence_interval
    assert (low.item(), high.item()) == pytest.approx(theirs, abs=0.004)


def test_binning_many_images_keeps_the_standard_error():
    """With more images than bins, the spread of resampled means is still sigma / sqrt(n)."""
    n = 8 * BINS
    values = torch.randn(n, generator=torch.Generator().manual_seed(0)) * 3
    spread = filled(values, 500).resample(draws=4000).std()
    assert spread.item() == pytest.approx(3 / n**0.5, rel=0.06)


def test_memory_does_not_grow_with_images():
    mean = filled(torch.randn(5 * BINS, 2), 100)
    assert mean._sums.shape == (BINS, 2)


def test_seeds_decide():
    mean = filled(torch.randn(50, 2), 10)
    assert torch.equal(mean.resample(seed=1), mean.resample(seed=1))
    assert not torch.equal(mean.resample(seed=1), mean.resample(seed=2))


def test_a_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no images"):
        BinnedMean().mean()
