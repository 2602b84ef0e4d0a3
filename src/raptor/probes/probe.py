"""What a flow's features are worth: heads are trained on one split, selected on another, reported on a third."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from raptor.display import Displayed
from raptor.errors import TrainingError
from raptor.flow import counted
from raptor.probes.features import Features, Source
from raptor.probes.plan import Plan
from raptor.probes.task import Task
from raptor.probes.training import OWN_EXACT, OWN_USEFUL, own_start, train_heads
from raptor.processes import team_of
from raptor.resampling import BinnedMean, percentile_interval

# Features to a prediction: a head, or something that needs no training.
Answer = Callable[[Features], Tensor]


@dataclass(frozen=True)
class Column:
    """Metrics on the reported split: means over seeds, 95% bootstrap intervals over images, and by seed.

    Parameters
    ----------
    value, ci, by_seed
        By metric.
    draws
        By metric, its value on each resample of the images; resamples of the same images are the same everywhere.
    """

    value: dict[str, float]
    ci: dict[str, tuple[float, float]]
    by_seed: dict[str, list[float]]
    draws: dict[str, Tensor] = field(repr=False)


@dataclass(frozen=True)
class Probed(Displayed):
    """What a probe found.

    Parameters
    ----------
    columns
        `fine-tuned`; `constant`, which knows nothing but the training targets; `own` where the model has a classifier.
    rate
        The learning rate that was selected.
    selection
        The deciding metric on the selection split by learning rate, averaged over seeds.
    images
        Trained on, selected on, reported on.
    steps, batch_size
        Of one training.
    notes
        What a reader should know.
    """

    columns: dict[str, Column]
    rate: float
    selection: dict[float, float]
    images: dict[str, int]
    steps: int
    batch_size: int
    notes: tuple[str, ...] = ()


def probe_sources(
    tasks: Sequence[Task],
    train: Source,
    select: Source,
    report: Source,
    plan: Plan,
    watch: Callable[[str, int, dict[str, float]], None] | None = None,
) -> dict[str, Probed]:
    """Probe features for some tasks; those of `select` and of `report` are asked for once.

    Parameters
    ----------
    tasks
        From `tasks_of`.
    train, select, report
        Features of three sets of images that share none: `Live`, or `Kept` where they are gone through many times.
    plan
        Learning rates, seeds, passes.
    watch
        Called with the task, the seed and each line of a training's log.
    """
    heads: dict[str, dict[Any, Answer]] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        own, explained = own_start(task, train)
        first = next(iter(train))
        heads[task.name], notes[task.name] = {}, _notes(task, first, explained)
        for seed in plan.seeds:
            torch.manual_seed(seed)
            start = own or task.head(first)
            call = None if watch is None else lambda line, task=task, seed=seed: watch(task.name, seed, line)
            rates = plan.rates_of(task)
            trained = train_heads(task, train, plan.recipe(task, len(train), seed), rates, start, call)
            heads[task.name] |= {(rate, seed): head for rate, head in zip(rates, trained, strict=True)}
    chosen, selection, selected_on = _select(tasks, heads, select, plan)
    asked = {
        task.name: {
            "constant": task.constant,
            **{seed: heads[task.name][chosen[task.name], seed] for seed in plan.seeds},
        }
        for task in tasks
    }
    found, reported_on = _scores(tasks, asked, report)
    probed = {}
    for task in tasks:
        means = found[task.name]
        columns = {"fine-tuned": _column(task, [means[seed] for seed in plan.seeds])}
        columns |= {name: _column(task, [means[name]]) for name in ("own", "constant") if name in means}
        recipe = plan.recipe(task, len(train), 0)
        images = {"train": len(train), "select": selected_on, "report": reported_on}
        told = (*notes[task.name], *_at_the_edge(chosen[task.name], plan.rates_of(task)))
        probed[task.name] = Probed(
            columns, chosen[task.name], selection[task.name], images, recipe.steps, recipe.batch_size, told
        )
    return probed


def _notes(task: Task, features: Features, explained: float | None) -> tuple[str, ...]:
    lacking = "cls" in task.reads and features.cls is None
    notes = ["this model has no cls token: heads read its patches alone"] if lacking else []
    if explained is not None and not explained >= OWN_EXACT:
        start = "a linear map of that kind" if explained >= OWN_USEFUL else "nothing"
        notes.append(
            f"a linear map of what the probe reads explains {explained:.1%} of the model's own classifier on other "
            f"images: it is not linear, or there are too few images to read it from; the probe starts from {start}"
        )
    return tuple(notes)


def _at_the_edge(rate: float, rates: Sequence[float]) -> tuple[str, ...]:
    if len(rates) == 1 or rate not in (min(rates), max(rates)):
        return ()
    return (f"the best learning rate, {rate:g}, is at the end of those tried: others may be better",)


def _select(
    tasks: Sequence[Task], heads: dict[str, dict[Any, Answer]], source: Source, plan: Plan
) -> tuple[dict[str, float], dict[str, dict[float, float]], int]:
    """Return the best learning rate of each task, what each reached, and the number of images."""
    found, n = _scores(tasks, heads, source)
    chosen, reached = {}, {}
    for task in tasks:
        metric, sign = task.best
        at = {key: task.summary(mean.mean())[metric].item() for key, mean in found[task.name].items()}
        by_rate = {rate: sum(at[rate, seed] for seed in plan.seeds) / len(plan.seeds) for rate in plan.rates_of(task)}
        reached[task.name] = by_rate
        finite = {rate: sign * value for rate, value in by_rate.items() if math.isfinite(value)}
        if not finite:
            raise TrainingError(f"no head to {task.name} has a finite {metric}; give lower learning rates")
        chosen[task.name] = max(finite.items(), key=lambda item: item[1])[0]
    return chosen, reached, n


@torch.no_grad()
def _scores(
    tasks: Sequence[Task], asked: dict[str, dict[Any, Answer]], source: Source
) -> tuple[dict[str, dict[Any, BinnedMean]], int]:
    """Score all answers to all tasks in one pass; the model's own classifier too, where it has one."""
    means: dict[str, dict[Any, BinnedMean]] = {task.name: {} for task in tasks}
    n, team = 0, team_of(source)
    for features in source:
        own = counted(features)
        n += sum(team.all(own))
        for task in tasks:
            truth, answers = task.truth(features), dict(asked[task.name])
            if task.answers_as(features.own):
                answers["own"] = lambda features: features.own
            for key, answer in answers.items():
                scores = task.scores(answer(features), truth)[:own]
                means[task.name].setdefault(key, BinnedMean()).add(team.whole(scores))
    return means, n


def _column(task: Task, means: Sequence[BinnedMean]) -> Column:
    """Average metrics over seeds; a resample draws the same images for all of them."""
    by_seed = [task.summary(mean.mean()) for mean in means]
    drawn = [task.summary(mean.resample()) for mean in means]
    draws = {metric: torch.stack([one[metric] for one in drawn]).mean(dim=0) for metric in task.metrics}
    value, ci = {}, {}
    for metric in task.metrics:
        value[metric] = torch.stack([one[metric] for one in by_seed]).mean().item()
        low, high = percentile_interval(draws[metric])
        ci[metric] = (low.item(), high.item())
    return Column(value, ci, {metric: [one[metric].item() for one in by_seed] for metric in task.metrics}, draws)
