"""The tasks, by name, each made from what the training images are labelled with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raptor.data.annotations import UNLABELLED
from raptor.data.batch import Batch
from raptor.errors import DataError, OptionError
from raptor.probes.classify import Classify
from raptor.probes.depth import Depth
from raptor.probes.segment import Segment
from raptor.probes.task import Task

LOOK = 2000  # training images whose targets are looked at: for the constant answers, and the range of depths
MARGIN = 1e-3  # share of either end by which the range of depths is widened, so that both are inside


@dataclass
class _Seen:
    """What the targets of training images are like; each is None where there are none of its kind."""

    labels: Tensor | None = None
    ids: Tensor | None = None
    depths: tuple[float, float, float] | None = None

    @classmethod
    def of(cls, images: Any) -> _Seen:
        """Look at some images."""
        seen, total, count = cls(), 0.0, 0
        batches: Iterable[Batch] = images.some(LOOK).alone()
        for batch in batches:
            if batch.label is not None:
                seen.labels = _counted(seen.labels, batch.label, len(images.classes or ()))
            if batch.mask is not None:
                seen.ids = _counted(seen.ids, batch.mask.flatten(), UNLABELLED + 1)
            if batch.depth is not None:
                known = batch.depth[batch.depth > 0].double()
                total, count = total + known.sum().item(), count + len(known)
                low, high, _ = seen.depths or (float("inf"), 0.0, 0.0)
                if len(known):
                    low, high = min(low, known.min().item()), max(high, known.max().item())
                seen.depths = (low, high, total / max(count, 1))
        return seen


def _counted(before: Tensor | None, ids: Tensor, n: int) -> Tensor:
    found = torch.bincount(ids.cpu(), minlength=n)
    return found if before is None else before + found


def _classify(images: Any, seen: _Seen, eigen_crop: bool) -> Task | None:
    return None if seen.labels is None else Classify(seen.labels / seen.labels.sum())


def _segment(images: Any, seen: _Seen, eigen_crop: bool) -> Task | None:
    if seen.ids is None:
        return None
    labelled = seen.ids[:UNLABELLED]
    if not labelled.any():
        raise DataError(f"no pixel of {LOOK} training masks has a class")
    n = images.n_mask_classes or int(labelled.nonzero().max()) + 1
    return Segment(labelled[:n] / labelled.sum())


def _depth(images: Any, seen: _Seen, eigen_crop: bool) -> Task | None:
    if seen.depths is None:
        return None
    low, high, mean = seen.depths
    if high == 0.0:
        raise DataError(f"no pixel of {LOOK} training images has a depth")
    return Depth(low * (1 - MARGIN), high * (1 + MARGIN), mean, eigen_crop)


# Name -> how the task is made; None where there are no such targets.
TASKS: dict[str, Callable[[Any, _Seen, bool], Task | None]] = {
    "classify": _classify,
    "segment": _segment,
    "depth": _depth,
}
NEEDS = {"classify": "labels", "segment": "masks", "depth": "depths"}


def tasks_of(images: Any, names: Sequence[str] | None = None, eigen_crop: bool = False) -> list[Task]:
    """Make tasks from the targets of training images.

    Parameters
    ----------
    images
        A set that `load_images` gave; at most 2,000 of them are looked at.
    names
        Of the tasks; by default all that the images have labels for.
    eigen_crop
        Of the task `depth`.
    """
    for name in names or ():
        if name not in TASKS:
            raise OptionError(f"there is no task {name!r}; there are {', '.join(TASKS)}")
    seen = _Seen.of(images)
    made = {name: TASKS[name](images, seen, eigen_crop) for name in names or TASKS}
    found = [task for task in made.values() if task is not None]
    missing = [name for name, task in made.items() if task is None]
    if names and missing:
        raise DataError(f"the task {missing[0]} takes {NEEDS[missing[0]]}, which these images have not")
    if not found:
        raise DataError(f"these images have nothing to probe for: no {', no '.join(NEEDS.values())}")
    return found


def check_targets(task: Task, batch: Batch, what: str) -> None:
    """Raise where images that a task is selected or reported on do not have what it takes."""
    if getattr(batch, task.target) is None:
        needed = NEEDS.get(task.name, task.target)  # a task of somebody's own has no row there
        raise DataError(f"the images to {what} on have no {needed}, which the task {task.name} takes")
