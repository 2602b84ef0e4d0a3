"""Linear probes on features: trained on one set of images, selected on another, reported on a third."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from raptor.core.batches import n_real
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate
from raptor.errors import TrainingError
from raptor.probes.features import Features, Source
from raptor.probes.options import ProbeOptions
from raptor.probes.results import CONSTANT, LINEAR_PROBE, PRETRAINED, HeadMetrics, ProbeResult
from raptor.probes.task import Task
from raptor.probes.training import OWN_EXACT, OWN_USEFUL, lrs_of, own_start, train_config, train_heads
from raptor.runtime.random_state import preserve_random_state

# From features to a prediction: a head, or a function without parameters.
Answer = Callable[[Features], Tensor]


@preserve_random_state()
def probe_sources(
    tasks: Sequence[Task],
    train: Source,
    val: Source,
    test: Source,
    options: ProbeOptions,
    watch: Callable[[str, int, dict[str, float]], None] | None = None,
) -> dict[str, ProbeResult]:
    """Probe features for some tasks; `val` and `test` are read once.

    Parameters
    ----------
    tasks
        Tasks, such as those of `tasks_of`.
    train, val, test
        Features of three disjoint sets of images: `Live`, or `CachedFeatures`.
    options
        Learning rates, seeds, epochs and batch size.
    watch
        Called with the task's name, the seed and each line of the training log.

    Returns
    -------
    dict
        The results by task.
    """
    heads: dict[str, dict[Any, Answer]] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        own, explained = own_start(task, train)
        first = next(iter(train))
        heads[task.name], notes[task.name] = {}, _notes(task, first, explained)
        for seed in options.seeds:
            torch.manual_seed(seed)
            start = own or task.head(first)
            call = None if watch is None else lambda line, task=task, seed=seed: watch(task.name, seed, line)
            lrs = lrs_of(options, task)
            trained = train_heads(task, train, train_config(options, task, len(train), seed), lrs, start, call)
            heads[task.name] |= {(lr, seed): head for lr, head in zip(lrs, trained, strict=True)}
    chosen, selection, n_selected = _select(tasks, heads, val, options)
    asked = {
        task.name: {
            CONSTANT: task.constant,
            **{seed: heads[task.name][chosen[task.name], seed] for seed in options.seeds},
        }
        for task in tasks
    }
    scores, n_reported = _scores(tasks, asked, test)
    results = {}
    for task in tasks:
        means = scores[task.name]
        columns = {LINEAR_PROBE: _head_metrics(task, [means[seed] for seed in options.seeds])}
        columns |= {name: _head_metrics(task, [means[name]]) for name in (PRETRAINED, CONSTANT) if name in means}
        recipe = train_config(options, task, len(train), 0)
        results[task.name] = ProbeResult(
            reported=columns[LINEAR_PROBE],
            head=LINEAR_PROBE,
            heads=columns,
            lr=chosen[task.name],
            selection=selection[task.name],
            images={"train": len(train), "select": n_selected, "report": n_reported},
            steps=recipe.steps,
            batch_size=recipe.batch_size,
            notes=(*notes[task.name], *_edge_notes(chosen[task.name], lrs_of(options, task))),
            metrics=task.metrics,
        )
    return results


def _notes(task: Task, features: Features, explained: float | None) -> tuple[str, ...]:
    lacking = "cls" in task.reads and features.cls is None
    notes = ["this model has no cls token: the heads read only its patches"] if lacking else []
    if explained is not None and not explained >= OWN_EXACT:
        start = "this linear fit" if explained >= OWN_USEFUL else "small random weights"
        notes.append(
            f"a linear fit of the probe's features explains {explained:.1%} of the variance of the pretrained head's "
            "logits on other images: the head is not linear, or there are too few images; the probe starts from "
            f"{start}"
        )
    return tuple(notes)


def _edge_notes(lr: float, lrs: Sequence[float]) -> tuple[str, ...]:
    if len(lrs) == 1 or lr not in (min(lrs), max(lrs)):
        return ()
    which = "lowest" if lr == min(lrs) else "highest"
    return (f"the best learning rate, {lr:g}, is the {which} one: others may be better",)


def _select(
    tasks: Sequence[Task], heads: dict[str, dict[Any, Answer]], source: Source, options: ProbeOptions
) -> tuple[dict[str, float], dict[str, dict[float, float]], int]:
    """Return the best learning rate of each task, the deciding metric by learning rate, and the number of images."""
    found, n = _scores(tasks, heads, source)
    chosen, reached = {}, {}
    for task in tasks:
        metric = task.headline().name
        sign = 1.0 if task.headline().higher_is_better else -1.0
        at = {key: task.summary(mean.mean())[metric].item() for key, mean in found[task.name].items()}
        by_lr = {lr: sum(at[lr, seed] for seed in options.seeds) / len(options.seeds) for lr in lrs_of(options, task)}
        reached[task.name] = by_lr
        finite = {lr: sign * value for lr, value in by_lr.items() if math.isfinite(value)}
        if not finite:
            raise TrainingError(f"no head of the task {task.name!r} has a finite {metric}: use lower learning rates")
        chosen[task.name] = max(finite.items(), key=lambda item: item[1])[0]
    return chosen, reached, n


@torch.no_grad()
def _scores(
    tasks: Sequence[Task], asked: dict[str, dict[Any, Answer]], source: Source
) -> tuple[dict[str, dict[Any, BinnedMean]], int]:
    """Score all heads of all tasks in one pass, the pretrained head too; return means and the number of images."""
    means: dict[str, dict[Any, BinnedMean]] = {task.name: {} for task in tasks}
    n, process_group = 0, source.process_group
    for features in source:
        own = n_real(features)
        n += sum(process_group.all_gather_objects(own))
        for task in tasks:
            truth, answers = task.truth(features), dict(asked[task.name])
            if task.answers_as(features.own):
                answers[PRETRAINED] = lambda features: features.own
            for head, answer in answers.items():
                scores = task.scores(answer(features), truth)[:own]
                means[task.name].setdefault(head, BinnedMean()).add(process_group.all_gather(scores))
    return means, n


def _head_metrics(task: Task, means: Sequence[BinnedMean]) -> HeadMetrics:
    """Average metrics over seeds; every resample has the same images for all of them."""
    by_seed = [task.summary(mean.mean()) for mean in means]
    drawn = [task.summary(mean.resample()) for mean in means]
    metrics, draws = {}, {}
    for name in (metric.name for metric in task.metrics):
        draws[name] = torch.stack([one[name] for one in drawn]).mean(dim=0)
        value = torch.stack([one[name] for one in by_seed]).mean()
        metrics[name] = Estimate.from_draws(value, draws[name], means[0].n)
    return HeadMetrics(metrics, {name: [one[name].item() for one in by_seed] for name in metrics}, draws)
