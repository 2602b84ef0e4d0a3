"""All partitions of depth into as many phases."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

MOST = 100_000  # partitions; where there are more, as many are drawn


def placements(depth: int, k: int, min_length: int) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of all partitions of a depth into k phases; where there are over 100,000, random ones.

    Parameters
    ----------
    depth, k
        Number of layers and of phases.
    min_length
        Minimum number of layers in a phase.
    """
    free = depth - k * min_length
    if free < 0:
        return
    if math.comb(free + k - 1, k - 1) <= MOST:
        chosen: Iterator[Sequence[int]] = itertools.combinations(range(free + k - 1), k - 1)
    else:
        draw = random.Random(0)
        chosen = (sorted(draw.sample(range(free + k - 1), k - 1)) for _ in range(MOST))
    for bars in chosen:
        edges = (-1, *bars, free + k - 1)
        yield tuple(min_length + after - before - 1 for before, after in itertools.pairwise(edges))
