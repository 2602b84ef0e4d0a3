"""Sets of images in shards: read forward, and shuffled within a buffer for training."""

from __future__ import annotations

import random
from collections.abc import Iterator

from raptor.core.batches import Batch
from raptor.data.images import Images
from raptor.data.order import blockwise, split_indices
from raptor.data.records import Records, Subset
from raptor.data.splits import SPLIT_SEED
from raptor.data.streaming.tables import BUFFER
from raptor.errors import DataError


def shards_of(records: Records) -> list[int] | None:
    """Return the number of the shard of every record, None for records that are not in shards."""
    if isinstance(records, Subset):
        inner = shards_of(records.records)
        return None if inner is None else [inner[index] for index in records.indices]
    found = getattr(records, "shards", None)
    return None if found is None else list(found)


class StreamedImages(Images):
    """A set of images in shards. Parts of it keep the order of the shards, so that every pass reads forward.

    Parameters are those of `Images`; `buffer` is the number of images within which training shuffles.
    """

    buffer: int = BUFFER

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches indefinitely, starting at a step; processes read different shards.

        Parameters
        ----------
        first_step, batch_size, seed, part
            As in `LoadedImageSet.shuffled`.
        """
        shards = shards_of(self.records)
        assert shards is not None
        groups: dict[int, list[int]] = {}
        for index, shard in enumerate(shards):
            groups.setdefault(shard, []).append(index)
        order = blockwise(list(groups.values()), first_step, batch_size, seed, part, self.buffer)
        return self._load(order, endless=True)

    def fit_eval_split(self) -> tuple[Images, Images]:
        """Split the set at random, but always in the same way, into two halves in the order of the shards."""
        n = len(self)
        if n < 2:
            raise DataError(f"{n} images cannot be split into a fit and an evaluation half; use at least 2")
        rest, off = split_indices(n, n // 2)
        return self._part(rest), self._part(off)

    def sample(self, n: int) -> Images:
        """Return at most n of the images, from the first shards: a random sample that is always the same."""
        near = range(min(len(self), max(self.buffer, n)))
        return self._part(sorted(random.Random(SPLIT_SEED).sample(near, min(n, len(self)))))

    def _part(self, indices: list[int]) -> StreamedImages:
        part = StreamedImages(
            Subset(self.records, indices), self.preprocessing, self.batch_size, self.workers, self.allow_damaged,
            self.process_group,
        )  # fmt: skip
        part.tolerated, part.buffer, part._of = self.tolerated, self.buffer, (self, indices)
        return part
