"""Choose tasks for a set of training images."""

from __future__ import annotations

from collections.abc import Sequence

from raptor.core.batches import Batch, LoadedImageSet
from raptor.errors import DataError, OptionError
from raptor.probes import classify, depth, segment  # noqa: F401 (registers them)
from raptor.probes.targets import Targets
from raptor.probes.task import TASKS, Task


def tasks_of(images: LoadedImageSet, names: Sequence[str] | None = None, eigen_crop: bool = False) -> list[Task]:
    """Build tasks from the annotations of training images.

    Parameters
    ----------
    images
        Training images from `load_images`; at most 2,000 of them are read.
    names
        Names of registered tasks; by default all tasks that the images have annotations for.
    eigen_crop
        Report depth on Eigen's crop of NYU Depth v2.
    """
    for name in names or ():
        if name not in TASKS:
            raise OptionError(f"there is no task {name!r}; use {', '.join(TASKS)}")
    targets = Targets.of(images, eigen_crop)
    found = [name for name in names or TASKS if getattr(targets, TASKS[name].needs) is not None]
    missing = [name for name in names or () if name not in found]
    if missing:
        raise DataError(f"the task {missing[0]!r} needs {TASKS[missing[0]].needs}; this dataset has none")
    if not found:
        needed = dict.fromkeys(entry.needs for entry in TASKS.values())
        raise DataError(f"this dataset has no annotations to probe for: no {', no '.join(needed)}")
    return [TASKS[name].kind.from_targets(targets) for name in found]


def check_targets(task: Task, batch: Batch, what: str) -> None:
    """Raise an error if images to select or report on lack the annotation of a task.

    Parameters
    ----------
    task
        The task.
    batch
        Some of the images.
    what
        `select` or `report`.
    """
    if getattr(batch, task.target) is None:
        needed = TASKS[task.name].needs if task.name in TASKS else task.target
        raise DataError(f"the task {task.name!r} needs {needed}; the images to {what} on have none")
