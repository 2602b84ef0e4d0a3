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


READERS = 4  # parts of the shards that a process reads in turn, so that its workers read different shards


def blockwise(
    groups: list[list[int]], first_step: int, batch_size: int, seed: int, part: tuple[int, int], buffer: int
) -> Iterator[list[int]]:
    """Yield batches of indices of images in shards indefinitely; a batch depends only on its step.

    Every process has shards of its own, and every batch comes from a few of them. Shards are in a new order in each
    epoch; images are shuffled within blocks of consecutive images, as in a buffer that is filled and emptied.

    Parameters
    ----------
    groups
        Indices of the images of each shard, in the order of the shard.
    first_step, batch_size, seed, part
        As in `endless`.
    buffer
        Images per block.
    """
    process, n = part
    readers = max(1, min(READERS, len(groups) // n))
    if len(groups) < n:  # fewer shards than processes: each takes some images of every shard
        groups = [group[process::n] for group in groups]
        own = [[group for group in groups if group]]
    else:
        own = [groups[process + n * reader :: n * readers] for reader in range(readers)]
    size = len(range(process, batch_size, n))
    sources = [_Blocks(some, f"{seed}/{process}/{reader}", buffer) for reader, some in enumerate(own)]
    step = first_step
    while True:
        source, turn = sources[step % len(sources)], step // len(sources)
        yield [source[place] for place in range(turn * size, (turn + 1) * size)]
        step += 1


class _Blocks:
    """An endless sequence of the images of some shards, shuffled within blocks."""

    def __init__(self, groups: list[list[int]], seed: str, buffer: int):
        self.groups, self.seed, self.buffer = groups, seed, buffer
        self.n = sum(map(len, groups))
        self.epoch, self.block = -1, -1
        self.rows, self.order = list[int](), list[int]()

    def __getitem__(self, place: int) -> int:
        epoch, inside = divmod(place, self.n)
        if epoch != self.epoch:
            groups = list(self.groups)
            random.Random(f"{self.seed}/{epoch}").shuffle(groups)
            self.epoch, self.block, self.rows = epoch, -1, [index for group in groups for index in group]
        block, offset = divmod(inside, self.buffer)
        if block != self.block:
            self.block, self.order = block, self.rows[block * self.buffer : (block + 1) * self.buffer]
            random.Random(f"{self.seed}/{epoch}/{block}").shuffle(self.order)
        return self.order[offset]
