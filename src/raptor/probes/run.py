"""Linear probes of a flow, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from raptor.errors import OptionError
from raptor.flow import DepthFlow
from raptor.models.identity import identity_of
from raptor.models.teachers.teacher import Teacher
from raptor.probes.features import Kept, Live, Source, filling
from raptor.probes.plan import Plan
from raptor.probes.probe import Probed, probe_sources
from raptor.probes.task import Task
from raptor.probes.tasks import check_targets, tasks_of
from raptor.sharded import in_memory, open_cache

IN_MEMORY = 4e9  # bytes of features that are kept in memory when nobody says


def probe(
    flow: DepthFlow,
    train: Any,
    select: Any,
    report: Any,
    tasks: Sequence[str] | Sequence[Task] | None = None,
    plan: Plan | None = None,
    layer: int | None = None,
    cache: Path | None = None,
    live: bool = False,
    announce: Callable[[str], None] = lambda text: None,
    watch: Callable[[str, int, dict[str, float]], None] | None = None,
) -> dict[str, Probed]:
    """Say what a flow's features are worth: linear heads on its frozen tokens.

    The flow runs once on every image; no gradient reaches it.

    Parameters
    ----------
    flow
        A teacher, a surrogate, a stitched flow.
    train, select, report
        Three sets of labelled images that share none, from `load_images`: heads are trained on the first, the best
        learning rate is selected on the second, and what is reported is measured on the third.
    tasks
        `classify`, `segment`, `depth`, or tasks from `tasks_of`; by default all that the images have labels for.
    plan
        Learning rates, seeds, passes.
    layer
        Whose states are read, 0..L; by default the last.
    cache
        Directory for the features of the training images; by default they are kept in memory up to 4 GB.
    live
        Keep none: the flow then runs on every training batch.
    announce
        Told how much is kept, and where.
    watch
        Called with the task, the seed and each line of a training's log.
    """
    chosen = [task for task in tasks or () if isinstance(task, Task)]
    if names := [task for task in tasks or () if isinstance(task, str)] or not tasks:
        chosen += tasks_of(train, names if isinstance(names, list) else None)
    for what, images in (("select", select), ("report", report)):
        batch = next(iter(images))
        for task in chosen:
            check_targets(task, batch, what)
    training, selecting, reporting = (Live(flow, images, layer) for images in (train, select, report))
    # What is computed again and again, or written to disk, is each process's own affair.
    one = training if training.team.n == 1 else Live(flow, train.alone(), layer)
    source = one if live else _kept(one if cache else training, one, chosen, cache, announce)
    return probe_sources(chosen, source, selecting, reporting, plan or Plan(), watch)


def _kept(
    live: Live, otherwise: Live, tasks: Sequence[Task], cache: Path | None, announce: Callable[[str], None]
) -> Source:
    """Compute features once, where they fit."""
    fields = {"mean"}.union(*(task.reads | {task.target} for task in tasks))
    first = next(iter(live))
    made, flow, device = filling(live, fields, first), live.flow, first.mean.device
    if cache is not None:
        if not isinstance(flow, Teacher):
            raise OptionError("features are kept on disk of loaded models alone: they are named by their weights")
        about = {**identity_of(flow, live.images), "layer": live.layer, "fields": sorted(fields)}
        return Kept(open_cache(cache, about, made, announce), live.images.batch_size, device)
    if made.n * made.bytes_each > IN_MEMORY:
        announce(f"{made.size} are not kept: the model runs on every batch; a cache on disk keeps them")
        return otherwise
    announce(f"{made.size} are kept in memory")
    return Kept(in_memory(made), live.images.batch_size, device)
