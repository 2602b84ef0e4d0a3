"""Linear probes of a flow in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from raptor.core.batches import ImageSource, LoadedImageSet, as_image_set
from raptor.core.flow import DepthFlow
from raptor.core.options import old_keywords
from raptor.errors import OptionError
from raptor.models.identity import identity_of
from raptor.models.teachers.teacher import Teacher
from raptor.probes.features import CachedFeatures, Live, Source, filling
from raptor.probes.options import ProbeOptions
from raptor.probes.probe import probe_sources
from raptor.probes.results import ProbeResult
from raptor.probes.task import Task
from raptor.probes.tasks import check_targets, tasks_of
from raptor.probes.training import train_config
from raptor.runtime.array_cache import in_memory, open_cache
from raptor.runtime.progress import Progress, ProgressLike
from raptor.runtime.tracked import Tracked, tracked

IN_MEMORY = 4e9  # bytes of features that are kept in memory by default


@old_keywords(ProbeOptions, select="val", report="test", plan="options")
def probe(
    flow: DepthFlow,
    train: LoadedImageSet,
    val: ImageSource,
    test: ImageSource,
    tasks: Sequence[str] | Sequence[Task] | None = None,
    options: ProbeOptions | None = None,
    announce: Callable[[str], None] = lambda text: None,
    watch: Callable[[str, int, dict[str, float]], None] | None = None,
    progress: ProgressLike = True,
) -> dict[str, ProbeResult]:
    """Measure the quality of a flow's frozen features with linear probes.

    The flow runs once on every image; no gradient reaches it.

    Parameters
    ----------
    flow
        A teacher, a surrogate or a stitched flow.
    train, val, test
        Three disjoint sets of annotated images from `load_images`. Heads are trained on the first, the learning rate is
        selected on the second, and metrics are reported on the third.
    tasks
        Names of tasks (`classify`, `segment`, `depth`, or registered ones), or instances of `Task`; by default all
        tasks that the images have annotations for.
    options
        How heads are trained, and which features they read.
    announce
        Called with a message on how many features are kept, and where.
    watch
        Called with the task's name, the seed and each line of the training log.
    progress
        As in `measure_dynamics`.

    Returns
    -------
    dict
        A `ProbeResult` by task.
    """
    options, shown = options or ProbeOptions(), Progress.of(progress)
    chosen = [task for task in tasks or () if isinstance(task, Task)]
    if names := [task for task in tasks or () if isinstance(task, str)] or not tasks:
        chosen += tasks_of(train, names if isinstance(names, list) else None)
    for what, images in (("select", val), ("report", test)):
        batch = next(iter(as_image_set(images)))
        for task in chosen:
            check_targets(task, batch, what)
    steps = sum(train_config(options, task, len(train), 0).steps for task in chosen)
    train = Tracked(train, "features: train", shown)
    val, test = tracked(val, "features: select", shown), tracked(test, "features: report", shown)
    training, selecting, reporting = (Live(flow, images, options.layer) for images in (train, val, test))
    # Features that are computed on every pass, or that are written to disk, are not shared between processes.
    one = training if training.process_group.world_size == 1 else Live(flow, train.unsharded(), options.layer)
    cached_by = one if options.cache else training
    source = one if options.live else _cached(cached_by, one, chosen, options.cache, announce)
    done: dict[tuple[str, int], int] = {}
    with shown.bar(len(options.seeds) * steps, "heads", "step") as bar:

        def move(name: str, seed: int, line: dict[str, float]) -> None:
            done[name, seed] = int(line["step"])
            bar.move(sum(done.values()), f"heads: {name}", line["loss"])
            if watch is not None:
                watch(name, seed, line)

        return probe_sources(chosen, source, selecting, reporting, options, move)


def _cached(
    live: Live, otherwise: Live, tasks: Sequence[Task], cache: Path | None, announce: Callable[[str], None]
) -> Source:
    """Compute features once if they fit into memory or a cache; otherwise return the live ones."""
    fields = {"mean"}.union(*(task.reads | {task.target} for task in tasks))
    first = next(iter(live))
    made, flow, device = filling(live, fields, first), live.flow, first.mean.device
    assert isinstance(live.images, LoadedImageSet)
    if cache is not None:
        if not isinstance(flow, Teacher):
            raise OptionError("--cache works only for loaded models, whose weights name the cache: leave it out")
        cache_key = {**identity_of(flow, live.images), "layer": live.layer, "fields": sorted(fields)}
        return CachedFeatures(open_cache(cache, cache_key, made, announce), live.images.batch_size, device)
    if made.n * made.bytes_each > IN_MEMORY:
        announce(f"{made.size} do not fit into memory: the model runs on every batch; --cache DIR keeps them on disk")
        return otherwise
    announce(f"{made.size} are kept in memory")
    return CachedFeatures(in_memory(made), live.images.batch_size, device)
