"""Sets of images: decoded in worker processes, with damaged images skipped, counted and listed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator

import torch

from raptor.core.batches import Batch
from raptor.core.preprocessing import Preprocessing
from raptor.data.decoded_images import DecodedImage, DecodedImages, stacked
from raptor.data.loader import loaded
from raptor.data.order import endless, split_indices
from raptor.data.records import Records, Subset
from raptor.data.splits import SPLIT_SEED
from raptor.errors import DamagedDataError, DataError
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from raptor.runtime.threads import available_cores

TOLERATED = 0.01  # largest share of damaged images that is not an error
FEW = 128  # fewer images are decoded in this process, because starting workers takes longer


class Images:
    """A set of images that can be iterated over any number of times, always in the same order.

    Parameters
    ----------
    records
        The images, not yet decoded.
    preprocessing
        Preprocessing of the model.
    batch_size
        Images per batch and process.
    workers
        Number of worker processes that decode images. By default, one per core up to 8, and none for few images.
    allow_damaged
        Skip any number of damaged images instead of at most 1%.
    process_group
        Processes that share the images; each gets its shard of every batch.
    """

    def __init__(
        self,
        records: Records,
        preprocessing: Preprocessing,
        batch_size: int = 32,
        workers: int | None = None,
        allow_damaged: bool = False,
        process_group: ProcessGroup = SINGLE_PROCESS,
    ):
        self.process_group = process_group
        self.records, self.preprocessing = records, preprocessing
        self.batch_size, self.allow_damaged = batch_size, allow_damaged
        self.workers = min(available_cores(), 8) if workers is None else workers
        if workers is None and len(records) < FEW:
            self.workers = 0
        self.tolerated = TOLERATED * len(records)
        self._damaged: dict[int, dict[str, str]] = {}
        self._of: tuple[Images, list[int]] | None = None  # parent set, and indices in it

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, or None if the images have no labels."""
        return self.records.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the mask classes, or None if there are no masks or no names."""
        return self.records.mask_classes

    @property
    def n_mask_classes(self) -> int | None:
        """Number of mask classes, or None if it is not known."""
        return self.records.n_mask_classes

    @property
    def damaged(self) -> list[dict[str, str]]:
        """Damaged images found so far, each with `path` and `reason`."""
        return [self._damaged[index] for index in sorted(self._damaged)]

    def __len__(self) -> int:
        """Return the number of images, including damaged ones."""
        return len(self.records)

    def identity(self) -> str:
        """Return a hash of the images, their class names and their preprocessing."""
        about = [repr(self.preprocessing), repr(self.classes), repr(self.mask_classes)]
        keys = (self.records.key_of(index) for index in range(len(self)))
        return hashlib.sha256("\n".join([*about, *keys]).encode()).hexdigest()

    def image_keys(self) -> set[str]:
        """Return a unique key for each image."""
        return {self.records.key_of(index) for index in range(len(self))}

    def __iter__(self) -> Iterator[Batch]:
        order, size = list(range(len(self))), self.batch_size * self.process_group.world_size
        yield from self._load(
            list(self.process_group.shard(order[start : start + size])) for start in range(0, len(order), size)
        )
        for damaged in self.process_group.all_gather_objects(dict(self._damaged)):
            for index, what in damaged.items():
                self._damage(index, what)
        self._check_damaged()
        if len(self._damaged) == len(self):
            raise DataError(f"none of the {len(self)} images can be read. First: {self._first()}")

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches indefinitely, starting at a step, in a new order in each epoch.

        Parameters
        ----------
        first_step, batch_size, seed, part
            As in `LoadedImageSet.shuffled`.
        """
        return self._load(endless(len(self), first_step, batch_size, seed, part), endless=True)

    def shuffled_epochs(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """Yield the same batches as `shuffled`."""
        return self.shuffled(first_step, batch_size, seed, part)

    def hold_out(self, most: int) -> tuple[Images, Images]:
        """Split off a tenth of the images, at most `most`, at random but always the same; return (rest, tenth)."""
        n = len(self)
        if n < 2:
            raise DataError(f"cannot hold out validation images from {n} training image; use at least 2")
        tenth = set(random.Random(SPLIT_SEED).sample(range(n), min(most, max(1, n // 10))))
        return self._part([i for i in range(n) if i not in tenth]), self._part(sorted(tenth))

    def fit_eval_split(self) -> tuple[Images, Images]:
        """Split the set at random, but always in the same way, into two shuffled halves."""
        n = len(self)
        if n < 2:
            raise DataError(f"{n} images cannot be split into a fit and an evaluation half; use at least 2")
        order, middle = random.Random(SPLIT_SEED).sample(range(n), n), (n + 1) // 2
        return self._part(order[:middle]), self._part(order[middle:])

    def split_off(self, n: int) -> tuple[Images, Images]:
        """Return the images without n of them, and these n: a random sample that is always the same."""
        rest, off = split_indices(len(self), n)
        return self._part(rest), self._part(off)

    def sample(self, n: int) -> Images:
        """Return at most n of the images: a random sample that is always the same."""
        return self._part(sorted(random.Random(SPLIT_SEED).sample(range(len(self)), min(n, len(self)))))

    def _part(self, indices: list[int]) -> Images:
        part = Images(
            Subset(self.records, indices), self.preprocessing, self.batch_size, self.workers, self.allow_damaged,
            self.process_group,
        )  # fmt: skip
        part.tolerated = self.tolerated  # the limit of the whole set
        part._of = (self, indices)
        return part

    def unsharded(self) -> Images:
        """Return the same images without sharding: all of them in this process."""
        part = self._part(list(range(len(self))))
        part.process_group = SINGLE_PROCESS
        return part

    def with_batch_size(self, most: int) -> Images:
        """Return the same images in batches of at most `most`."""
        part = self._part(list(range(len(self))))
        part.batch_size = min(self.batch_size, most)
        return part

    def _load(self, batches: Iterable[list[int]], endless: bool = False) -> Iterator[Batch]:
        dataset = DecodedImages(self.records, self.preprocessing)
        for items in loaded(dataset, batches, self.workers):
            self._note(items)
            good = [item for item in items if item.pixels is not None]
            spare = not good and not endless
            if not good and (endless or self.process_group.world_size > 1):
                good = [self._readable(dataset, items[0].index if items else -1)]
            if good:
                yield self._batch(good, spare)

    def _readable(self, dataset: DecodedImages, index: int) -> DecodedImage:
        """Return the first readable image after `index`, because a training batch must not be empty."""
        for place in range(index + 1, index + 1 + len(self)):
            item = dataset[place % len(self)]
            if item.pixels is not None:
                return item
        raise DataError(f"none of the {len(self)} images can be read. First: {self._first()}")

    def _batch(self, good: list[DecodedImage], spare: bool) -> Batch:
        label = None if self.classes is None else torch.tensor([item.label for item in good])
        pixels, mask, depth = (stacked([getattr(item, name) for item in good]) for name in ("pixels", "mask", "depth"))
        assert pixels is not None
        return Batch(pixels, label, mask, depth, [item.name for item in good], spare)

    def _note(self, items: list[DecodedImage]) -> None:
        """Record damaged images; raise an error if there are too many, or if annotations are wrong."""
        for item in items:
            if item.mistake:
                raise DataError(item.mistake)
        bad = [item for item in items if item.damage]
        for item in bad:
            self._damage(item.index, {"path": item.name, "reason": item.damage})
        if bad:
            self._check_damaged()

    def _check_damaged(self) -> None:
        if not self.allow_damaged and len(self._damaged) > self.tolerated:
            raise DamagedDataError(
                f"{len(self._damaged)} of {len(self)} images cannot be read, more than {TOLERATED:.0%}. First: "
                f"{self._first()}. Remove or repair them, or skip them with --allow-damaged"
            )

    def _damage(self, index: int, what: dict[str, str]) -> None:
        self._damaged[index] = what
        if self._of is not None:
            whole, indices = self._of
            whole._damage(indices[index], what)

    def _first(self) -> str:
        first = self.damaged[0]
        return f"{first['path']} ({first['reason']})"
