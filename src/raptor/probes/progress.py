"""Probes with progress bars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from raptor.data.train_val_test import TrainValTest
from raptor.models.teachers.teacher import Teacher
from raptor.probes.options import ProbeOptions
from raptor.probes.results import ProbeResult
from raptor.probes.run import probe
from raptor.probes.task import Task
from raptor.probes.training import train_config
from raptor.runtime.progress import Bar, Tracked, say


def probe_with_progress(
    teacher: Teacher, sets: TrainValTest, tasks: Sequence[Task], options: ProbeOptions, progress: Console
) -> dict[str, ProbeResult]:
    """Probe a model, with bars over images and over training steps.

    Parameters
    ----------
    teacher, tasks, options
        As in `probe`.
    sets
        The three sets of images.
    progress
        Console for the bars.
    """
    steps = {task.name: train_config(options, task, len(sets.train), 0).steps for task in tasks}
    train, val, test = (
        Tracked(images, f"features: {use}", progress)
        for images, use in zip(sets, ("train", "select", "report"), strict=True)
    )
    done: dict[tuple[str, int], int] = {}
    with Bar(len(options.seeds) * sum(steps.values()), "heads", progress) as bar:

        def watch(name: str, seed: int, line: dict[str, float]) -> None:
            done[name, seed] = int(line["step"])
            bar.move(sum(done.values()), f"training heads: {name}")

        return probe(teacher, train, val, test, tasks, options, announce=partial(say, progress), watch=watch)
