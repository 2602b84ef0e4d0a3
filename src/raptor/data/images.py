"""Images as batches: decoded in worker processes, damaged ones skipped, counted and named."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from raptor.data.annotations import read_depth, read_mask
from raptor.data.batch import Batch
from raptor.data.decode import DamagedImage, decode
from raptor.data.loader import loaded
from raptor.data.order import endless
from raptor.data.records import Records, Subset
from raptor.data.splits import SPLIT_SEED
from raptor.errors import DamagedDataError, DataError
from raptor.preprocessing import Preprocessing
from raptor.processes import ALONE, Team

TOLERATED = 0.01  # share of images that may be damaged before it is an error
FEW = 128  # images that one process decodes sooner than workers start


@dataclass(frozen=True)
class _Item:
    """An image as a worker gives it: with pixels, or with what is wrong with it or with its annotations."""

    index: int
    name: str
    label: int | None = None
    pixels: Tensor | None = None
    mask: Tensor | None = None
    depth: Tensor | None = None
    damage: str = ""
    mistake: str = ""


class _Decoded(Dataset):
    """Record by record."""

    def __init__(self, records: Records, preprocessing: Preprocessing):
        self.records, self.preprocessing = records, preprocessing

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> _Item:
        name = self.records.name_of(index)
        try:
            record = self.records[index]
            image = decode(record.image)
            size, used = (image.height, image.width), self.preprocessing
            mask = None if record.mask is None else read_mask(record.mask, size, used, name)
            depth = None if record.depth is None else read_depth(record.depth, size, used, name)
            return _Item(index, name, record.label, used(image), mask, depth)
        except DamagedImage as error:
            return _Item(index, name, damage=str(error))
        except DataError as error:  # an exception of a worker would come as its traceback
            return _Item(index, name, mistake=str(error))


def _stacked(values: list[Tensor | None]) -> Tensor | None:
    """Stack what every image has."""
    found = [value for value in values if value is not None]
    return torch.stack(found) if len(found) == len(values) else None


class Images:
    """A set of images that can be iterated over any number of times, in the same order.

    Parameters
    ----------
    records
        What there is.
    preprocessing
        What the teacher wants.
    batch_size
        Images a batch.
    workers
        Processes that decode; by default one a core up to 8, none for a few images.
    allow_damaged
        Skip any number of damaged images instead of at most 1%.
    team
        Processes that go through the images together, each through its part of every batch, which then has
        `batch_size` images of each.
    """

    def __init__(
        self,
        records: Records,
        preprocessing: Preprocessing,
        batch_size: int = 32,
        workers: int | None = None,
        allow_damaged: bool = False,
        team: Team = ALONE,
    ):
        self.team = team
        self.records, self.preprocessing = records, preprocessing
        self.batch_size, self.allow_damaged = batch_size, allow_damaged
        self.workers = min(os.cpu_count() or 1, 8) if workers is None else workers
        if workers is None and len(records) < FEW:
            self.workers = 0
        self.tolerated = TOLERATED * len(records)
        self._damaged: dict[int, dict[str, str]] = {}
        self._of: tuple[Images, list[int]] | None = None  # the set that this is a part of, and which

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes, or None where there are no labels."""
        return self.records.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the classes of pixels, or None where there are no masks or no names."""
        return self.records.mask_classes

    @property
    def n_mask_classes(self) -> int | None:
        """How many classes of pixels there are, or None where nobody says."""
        return self.records.n_mask_classes

    @property
    def damaged(self) -> list[dict[str, str]]:
        """The damaged images met so far, each with its path and what is wrong with it."""
        return [self._damaged[index] for index in sorted(self._damaged)]

    def __len__(self) -> int:
        """Return the number of images, damaged ones included."""
        return len(self.records)

    @property
    def identity(self) -> str:
        """A hash of what is in the set, what it is labelled with and how it is preprocessed."""
        about = [repr(self.preprocessing), repr(self.classes), repr(self.mask_classes)]
        keys = (self.records.key_of(index) for index in range(len(self)))
        return hashlib.sha256("\n".join([*about, *keys]).encode()).hexdigest()

    @property
    def keys(self) -> set[str]:
        """What tells the images from those of other sets."""
        return {self.records.key_of(index) for index in range(len(self))}

    def __iter__(self) -> Iterator[Batch]:
        order, size = list(range(len(self))), self.batch_size * self.team.n
        yield from self._load(list(self.team.own(order[start : start + size])) for start in range(0, len(order), size))
        for damaged in self.team.all(dict(self._damaged)):
            for index, what in damaged.items():
                self._damage(index, what)
        self._check_damaged()
        if len(self._damaged) == len(self):
            raise DataError(f"none of the {len(self)} images can be read; the first: {self._first()}")

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches without end, from a step on; each epoch has an order of its own by the seed.

        With `part` = (i, n) only the i-th of n equal parts of each batch: what one of n processes takes.
        """
        return self._load(endless(len(self), first_step, batch_size, seed, part), endless=True)

    def parted(self, most: int) -> tuple[Images, Images]:
        """Part the set: nine tenths or more, and a tenth, `most` at most, that is drawn once for all."""
        n = len(self)
        if n < 2:
            raise DataError(f"{n} image is too few to select on one that is not trained on")
        tenth = set(random.Random(SPLIT_SEED).sample(range(n), min(most, max(1, n // 10))))
        return self._part([i for i in range(n) if i not in tenth]), self._part(sorted(tenth))

    def halves(self) -> tuple[Images, Images]:
        """Part the set in two halves that are drawn once for all, each in no order: folders come sorted by class."""
        n = len(self)
        if n < 2:
            raise DataError(f"{n} image is too few to fit on one and judge on another")
        order, middle = random.Random(SPLIT_SEED).sample(range(n), n), (n + 1) // 2
        return self._part(order[:middle]), self._part(order[middle:])

    def some(self, n: int) -> Images:
        """Return at most n of the images, drawn once for all: folders come sorted by class."""
        return self._part(sorted(random.Random(SPLIT_SEED).sample(range(len(self)), min(n, len(self)))))

    def _part(self, indices: list[int]) -> Images:
        part = Images(
            Subset(self.records, indices), self.preprocessing, self.batch_size, self.workers, self.allow_damaged,
            self.team,
        )  # fmt: skip
        part.tolerated = self.tolerated  # as many damaged images as the whole set may have
        part._of = (self, indices)
        return part

    def alone(self) -> Images:
        """Return the same images, all of them for this process."""
        part = self._part(list(range(len(self))))
        part.team = ALONE
        return part

    def in_batches(self, most: int) -> Images:
        """Return the same images in batches that are no larger."""
        part = self._part(list(range(len(self))))
        part.batch_size = min(self.batch_size, most)
        return part

    def _load(self, batches: Iterable[list[int]], endless: bool = False) -> Iterator[Batch]:
        dataset = _Decoded(self.records, self.preprocessing)
        for items in loaded(dataset, batches, self.workers):
            self._note(items)
            good = [item for item in items if item.pixels is not None]
            spare = not good and not endless
            if not good and (endless or self.team.n > 1):
                good = [self._readable(dataset, items[0].index if items else -1)]
            if good:
                yield self._batch(good, spare)

    def _readable(self, dataset: _Decoded, index: int) -> _Item:
        """Return the first image after `index` that can be read: a step of a training has at least one."""
        for place in range(index + 1, index + 1 + len(self)):
            item = dataset[place % len(self)]
            if item.pixels is not None:
                return item
        raise DataError(f"none of the {len(self)} images can be read; the first: {self._first()}")

    def _batch(self, good: list[_Item], spare: bool) -> Batch:
        label = None if self.classes is None else torch.tensor([item.label for item in good])
        pixels, mask, depth = (_stacked([getattr(item, name) for item in good]) for name in ("pixels", "mask", "depth"))
        assert pixels is not None
        return Batch(pixels, label, mask, depth, [item.name for item in good], spare)

    def _note(self, items: list[_Item]) -> None:
        """Remember damaged images; raise as soon as they are too many, and at once where annotations are wrong."""
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
                f"{len(self._damaged)} of {len(self)} images cannot be read, more than {TOLERATED:.0%}; the first: "
                f"{self._first()}. Remove or repair them, or skip them all with --allow-damaged"
            )

    def _damage(self, index: int, what: dict[str, str]) -> None:
        self._damaged[index] = what
        if self._of is not None:
            whole, indices = self._of
            whole._damage(indices[index], what)

    def _first(self) -> str:
        first = self.damaged[0]
        return f"{first['path']} ({first['reason']})"
