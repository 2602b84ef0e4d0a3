"""What `raptor probe` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from raptor.data import data_for
from raptor.data.three_sets import ThreeSets, load_three_sets
from raptor.errors import OptionError
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.probe_result import describe_probe
from raptor.probes.depth import EIGEN_SIZE
from raptor.probes.plan import Plan
from raptor.probes.probe import Probed
from raptor.probes.run import probe
from raptor.probes.task import Task
from raptor.probes.tasks import tasks_of
from raptor.processes import team
from raptor.progress import Bar, Tracked, say
from raptor.run import Run


def probe_model(
    model: str,
    data: str | None,
    tasks: Sequence[str] | None,
    common: Common,
    *,
    plan: Plan,
    eval_data: str | None,
    eval_images: int | None,
    layer: int | None,
    cache: Path | None,
    live: bool,
    fit: str,
    eigen_crop: bool,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Train heads on frozen features of the train split, select on another, report on a third."""
    data = data_for(model, data, "a probe is trained on labelled images")
    if live and cache is not None:
        raise OptionError("features are either computed live or kept in a cache: give --live or --cache")
    config = common.config(
        model=model, data=data, tasks=tasks, eval_data=eval_data, eval_images=eval_images, layer=layer, cache=cache,
        live=live, fit=fit, eigen_crop=eigen_crop, weights=weights, head=head, rates=plan.rates,
        seeds=list(plan.seeds), epochs=plan.epochs, **loading,
    )  # fmt: skip
    with Run("probe", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, head, common.device)
        check_eigen(teacher, fit, eigen_crop)
        if layer is not None and not 0 <= layer <= teacher.depth:
            raise OptionError(f"{model!r} has layers 0 to {teacher.depth}, not {layer}")
        sets = load_three_sets(
            data,
            teacher.preprocessing.fitted(fit),
            eval_data,
            common.images,
            eval_images,
            batch_size=common.batch,
            seed=common.seed,
            team=team(),
            **loading,
        )
        chosen = tasks_of(sets.train, tasks, eigen_crop)
        run.begin()
        found = probe_with_bars(teacher, sets, chosen, plan, common.progress, layer=layer, cache=cache, live=live)
        described = {name: describe_probe(probed) for name, probed in found.items()}
        body: dict[str, Any] = {"model": model, "data": data, "eval_data": eval_data, "task": ",".join(found)}
        body["layer"] = teacher.depth if layer is None else layer
        if len(described) == 1:
            body |= next(iter(described.values()))
        else:
            body["tasks"] = described
        body["damaged"] = [damage for images in sets for damage in images.damaged]
        return run.finish(body, images=next(iter(found.values())).images["report"], layers=teacher.depth)


def check_eigen(teacher: Teacher, fit: str, eigen_crop: bool) -> None:
    """Raise where Eigen's crop would not be of images of 480x640 at their own size."""
    small = any(size < full for size, full in zip(teacher.image_size, EIGEN_SIZE, strict=True))
    if eigen_crop and (fit != "pad" or small):
        raise OptionError("Eigen's crop is of images at their own size of 480x640: use --fit pad --image-size 490x644")


def probe_with_bars(
    teacher: Teacher, sets: ThreeSets, tasks: Sequence[Task], plan: Plan, progress: Console, **options: Any
) -> dict[str, Probed]:
    """Probe, with bars over images and over steps; `options` are more arguments of `probe`."""
    steps = {task.name: plan.recipe(task, len(sets.train), 0).steps for task in tasks}
    tracked = [
        Tracked(images, f"features to {what}", progress) for images, what in zip(sets, ThreeSets._fields, strict=True)
    ]
    done: dict[tuple[str, int], int] = {}
    with Bar(len(plan.seeds) * sum(steps.values()), "heads", progress) as bar:

        def watch(name: str, seed: int, line: dict[str, float]) -> None:
            done[name, seed] = int(line["step"])
            bar.move(sum(done.values()), f"training heads: {name}")

        train, select, report = tracked
        announce = partial(say, progress)
        return probe(teacher, train, select, report, tasks, plan, announce=announce, watch=watch, **options)
