"""The order of training images."""

from __future__ import annotations

import random
from collections.abc import Iterator


def endless(n: int, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[list[int]]:
    """Yield batches of indices indefinitely; a batch depends only on its step, so that a run can resume anywhere.

    Parameters
    ----------
    n
        Number of images.
    first_step, batch_size
        Step of the first batch, and images per batch.
    seed
        Seed of the order, which is new in each epoch.
    part
        (i, n) yields only the i-th of n equal parts of each batch.
    """
    position = first_step * batch_size
    epoch, order = -1, list[int]()
    while True:
        batch = []
        for place in range(position, position + batch_size):
            if place // n != epoch:
                epoch, order = place // n, list(range(n))
                random.Random(f"{seed}/{epoch}").shuffle(order)
            batch.append(order[place % n])
        yield batch[part[0] :: part[1]]
        position += batch_size


def split_indices(total: int, n: int) -> tuple[list[int], list[int]]:
    """Return the indices of all images but n, and of these n: a random sample that is always the same."""
    off = set(random.Random(f"split off {n} of {total}").sample(range(total), n))
    return [one for one in range(total) if one not in off], sorted(off)
