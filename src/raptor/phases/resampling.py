"""How often resampled images give the same boundaries and the same number of phases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raptor.core.bootstrap import BinnedMean
from raptor.phases.choose_k import useful_k
from raptor.phases.segment import segment_values
from raptor.phases.solvers import best_boundaries, best_suffixes


@dataclass(frozen=True)
class Bootstrap:
    """How often resampled images give the same result.

    With many images these frequencies tend to 1, however small the gap to the runner-up. Read them together with the
    gap and the near-optimal partitions.

    Parameters
    ----------
    n
        Number of resamples.
    boundary_frequency
        By layer: share of resamples whose best partition into k phases has a boundary after it.
    k_frequency
        By k: share of resamples whose useful k it is.
    """

    n: int
    boundary_frequency: dict[int, float]
    k_frequency: dict[int, float]


def bootstrap_partitions(
    images: BinnedMean, k: int, objective: str, min_length: int, seed: int, draws: int
) -> Bootstrap:
    """Partition resampled means of the similarity, always exactly.

    Parameters
    ----------
    images
        Running mean of the similarity of the layers 1..L.
    k, objective, min_length
        How depth is partitioned.
    seed, draws
        Seed and number of resamples.
    """
    matrices = images.resample(draws, seed).numpy()
    values = segment_values(matrices, objective, min_length)
    ends = best_boundaries(values, best_suffixes(values, k), k)[:, :-1]
    chosen = useful_k(matrices, min_length)
    return Bootstrap(
        draws,
        {layer: float(np.mean(np.any(ends == layer, axis=1))) for layer in sorted(set(ends.ravel().tolist()))},
        {number: float(np.mean(chosen == number)) for number in sorted(set(chosen.tolist()))},
    )
