"""The paper's Table 1: a teacher, its surrogates and controls on all tasks, with the share that each recovers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch

from raptor.core.bootstrap import percentile_interval
from raptor.core.estimate import Estimate
from raptor.core.serialize import Key
from raptor.data.load import data_for
from raptor.data.options import LoadOptions
from raptor.data.train_val_test import TrainValTest
from raptor.errors import OptionError
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.complexity import count_parameters
from raptor.models.load import load_model
from raptor.models.pretrained import RaptorModel, with_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.probes.options import Table1Options
from raptor.probes.published import TABLE1, PublishedRow
from raptor.probes.results import CONSTANT, LINEAR_PROBE, HeadMetrics, ProbeResult
from raptor.probes.run import probe
from raptor.probes.table1_models import TableModel, load_sets, missing_notes, table_models
from raptor.probes.task import TASKS, Metric
from raptor.probes.tasks import tasks_of
from raptor.render.notebook import HtmlRepr
from raptor.runtime.options import RunOptions


@dataclass(frozen=True)
class Table1Row:
    """A model of Table 1.

    Parameters
    ----------
    row, kind, model, k
        Name in the table; `teacher`, `surrogate`, `untied` or `baseline`; where it was loaded from; number of blocks.
    parameters
        Number of parameters.
    tasks
        All results of its probes, by task.
    recovered
        Share of the teacher's score, by column (`top1`, `miou`, `rmse`; `top1_own` for the pretrained head): the ratio
        where higher is better, the inverse ratio for errors.
    scores
        The linear probe's score by column; None where the images have no such annotation.
    r2
        R2 at the last layer, for surrogates.
    seconds
        Time that the row took.
    """

    row: str
    kind: str
    model: str
    k: int | None
    parameters: int
    tasks: dict[str, ProbeResult]
    recovered: Annotated[dict[str, Estimate[float]], Key(split=False)]
    scores: Annotated[dict[str, Estimate[float] | None], Key(inline=True)]
    r2: Estimate[float] | None
    seconds: float


@dataclass(frozen=True)
class Table1Result(HtmlRepr):
    """The paper's Table 1 for a model.

    Parameters
    ----------
    rows
        The teacher, surrogates, untied controls and the baseline.
    published
        The published table, for comparison.
    notes
        Rows of the paper's table that are missing, and how to add them.
    """

    rows: list[Table1Row]
    published: list[PublishedRow]
    notes: list[str]


def columns_of_table() -> dict[str, tuple[str, Metric]]:
    """Return the columns, by key: each registered task with the metric that selects its learning rate."""
    columns: dict[str, tuple[str, Metric]] = {}
    for name, entry in TASKS.items():
        metric = entry.kind.headline()
        columns[f"{name}_{metric.name}" if metric.name in columns else metric.name] = name, metric
    return columns


def table1(
    model: str,
    data: str | None = None,
    options: Table1Options | None = None,
    weights: Path | None = None,
    head: Path | None = None,
    *,
    loading: LoadOptions | None = None,
    run_options: RunOptions | None = None,
) -> Table1Result:
    """Probe a teacher, its surrogates, untied controls and a baseline.

    Surrogates have to be given in the options or bundled with the model. `raptor table1` distills missing ones first.

    Parameters
    ----------
    model
        Name or directory of the teacher, as in `load_model`.
    data
        Annotated images; for `scenes` its own by default.
    options
        Which models the table has, and how they are probed.
    weights, head
        Files with the teacher's weights, and with a linear classifier.
    loading
        How images are read.
    run_options
        Seed, device, batch size, image size and the number of training images; `quiet` turns progress bars off.
    """
    options, loading = options or Table1Options(), loading or LoadOptions()
    run_options = run_options or RunOptions(quiet=True)
    data = data_for(model, data, "Table 1 needs annotated images")
    teacher = load_model(model, run_options.size, weights, head, run_options.device)
    models = table_models(teacher, model, data, options, loading, run_options, _not_distilled)
    return probe_models(models, data, options, loading, run_options)[0]


def _not_distilled(k: int, kind: str) -> str:
    raise OptionError(f"there is no {kind} with k = {k}: distill it first, and give its directory in surrogates")


def probe_models(
    models: Sequence[TableModel],
    data: str,
    options: Table1Options,
    loading: LoadOptions,
    run_options: RunOptions,
    save: Callable[[list[Table1Row]], None] = lambda rows: None,
) -> tuple[Table1Result, TrainValTest]:
    """Probe all models of the table.

    Parameters
    ----------
    models
        From `table_models`, the teacher first.
    data, options, loading, run_options
        As in `table1`.
    save
        Called with the rows after each model, so that an interruption does not lose them.

    Returns
    -------
    Table1Result
        The table.
    TrainValTest
        The images of the teacher.
    """
    teacher, rows, first, whole = models[0].teacher, [], None, None
    for model in models:
        began, sets = time.perf_counter(), load_sets(model.teacher, data, options, loading, run_options)
        tasks = tasks_of(sets.train, eigen_crop=options.eigen_crop)
        results = probe(
            model.teacher, *sets, tasks, options.probe_options(), run_options.announce, progress=run_options.progress
        )
        first, whole = first or sets, whole or results
        rows.append(
            Table1Row(
                row=model.label,
                kind=model.kind,
                model=model.source,
                k=model.k,
                parameters=count_parameters(model.teacher.module),
                tasks=results,
                recovered=_recovered(results, whole),
                scores=_scores(results),
                r2=_last_r2(model, teacher, sets, run_options.seed),
                seconds=round(time.perf_counter() - began, 1),
            )
        )
        save(rows)
    assert first is not None
    return Table1Result(rows, list(TABLE1), list(missing_notes(models))), first


def _scores(results: Mapping[str, ProbeResult]) -> dict[str, Estimate[float] | None]:
    return {
        name: results[task].reported[metric.name] if task in results else None
        for name, (task, metric) in columns_of_table().items()
    }


def _recovered(results: Mapping[str, ProbeResult], whole: Mapping[str, ProbeResult]) -> dict[str, Estimate[float]]:
    """Return the shares of the teacher's scores, of the linear probe and of the pretrained head."""
    shares = {}
    for name, (task, metric) in columns_of_table().items():
        for head, part in results[task].heads.items() if task in results else ():
            if head != CONSTANT and head in whole[task].heads:
                column = name if head == LINEAR_PROBE else f"{name}_{head}"
                shares[column] = share(part, whole[task].heads[head], metric)
    return shares


def share(part: HeadMetrics, whole: HeadMetrics, metric: Metric) -> Estimate[float]:
    """Return the share of the teacher's score that a model recovers, with an interval over paired resamples.

    Parameters
    ----------
    part, whole
        Metrics of the model and of the teacher, on the same images.
    metric
        Which metric; the ratio is inverted where lower is better.
    """
    over, under = (part, whole) if metric.higher_is_better else (whole, part)
    assert over.draws is not None
    assert under.draws is not None
    drawn, base = over.draws[metric.name], under.draws[metric.name]
    ratio = over[metric.name].value / under[metric.name].value if under[metric.name].value else math.nan
    low, high = percentile_interval(torch.where(base > 0, drawn / base, torch.nan))
    return Estimate(ratio, low.item(), high.item(), part[metric.name].n)


def _last_r2(model: TableModel, teacher: Teacher, sets: TrainValTest, seed: int) -> Estimate[float] | None:
    """Return R2 at the last layer of a surrogate, the second axis of Figure 5."""
    if model.kind not in ("surrogate", "untied"):
        return None
    assert isinstance(model.teacher.module, RaptorModel)
    surrogate = with_teacher(model.teacher.module, teacher)
    return trajectory_fidelity(teacher, surrogate, sets.val, surrogate.phases, seed, updates=False)["r2"].at("all", -1)
