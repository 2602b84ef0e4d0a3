"""What `raptor probe` and `raptor table1` show."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from raptor.probes.published import LATER, PublishedRow
from raptor.probes.results import CONSTANT, LINEAR_PROBE, PRETRAINED, HeadMetrics, ProbeReport, ProbeResult
from raptor.probes.table1 import Table1Result, Table1Row, columns_of_table
from raptor.probes.task import TASKS, Metric
from raptor.render.registry import page_sentences, page_table
from raptor.render.tables import Cell, Number, Part, Phrase, Table, file_lines
from raptor.runtime.rundir import Record

# What people read for the names of heads in result.json.
HEADS = {LINEAR_PROBE: "linear probe", PRETRAINED: "pretrained head", CONSTANT: "constant baseline"}


def metrics_of(result: ProbeResult, task: str = "") -> tuple[Metric, ...]:
    """Return the metrics of a result and their formats: the task's own, or plain ones if nobody registered the task."""
    registered = TASKS[task].kind.metrics if task in TASKS else ()
    return result.metrics or registered or tuple(Metric(name) for name in result.reported.metrics)


def show_probe(record: Record[ProbeReport]) -> Iterator[Part]:
    """Yield a table per task, how its heads were trained, and notes."""
    report = record.result
    for task, result in report.by_task.items():
        n = result.images
        title = f"{task}, layer {report.layer}: n = {n['report']:,} images [95% interval]"
        yield heads_table(result, title, task)
        seeds = len(next(iter(result.reported.by_seed.values())))
        yield (
            f"learning rate {result.lr:g}, selected on {n['select']:,} other images; {result.steps} steps of "
            f"{result.batch_size} images, {n['train']:,} training images; means over {seeds} seeds"
        )
        for note in result.notes:
            yield f"note: {note}"
    yield from file_lines(record)


def heads_table(result: ProbeResult, title: str, task: str = "") -> Table:
    """Return the metrics of one task: a row per head, a column per metric."""
    metrics = metrics_of(result, task)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (HEADS.get(name, name), *_numbers(head, metrics, "")) for name, head in result.heads.items()
    )
    return Table(title, ("head", *(metric.label for metric in metrics)), rows)


def _numbers(head: HeadMetrics, metrics: tuple[Metric, ...], at: str) -> list[Number]:
    return [Number(head.metrics.get(metric.name), metric.form, at + metric.name) for metric in metrics]


@page_sentences("probe", "worth")
def how_probed(record: Record[ProbeReport]) -> list[str]:
    """Return how to read the table of probes."""
    return [
        "Linear probes are trained on the tokens of the frozen model. The pretrained head is the classifier that comes "
        "with the model. The constant baseline always predicts the most frequent class or the mean depth; delta1 is "
        "the share of pixels whose depth is off by less than a factor of 1.25."
    ]


@page_table("probe", "worth")
def probes(record: Record[ProbeReport]) -> Table:
    """Return the metrics of all tasks and heads of a model."""
    rows: list[tuple[Cell, ...]] = []
    report = record.result
    for task, result in report.by_task.items():
        metrics, at = metrics_of(result, task), f"tasks/{task}/" if report.tasks is not None else ""
        for name, head in result.heads.items():
            parts: list[str | Number] = []
            for metric, number in zip(metrics, _numbers(head, metrics, f"{at}heads/{name}/"), strict=True):
                parts += [", " if parts else "", f"{metric.label} ", number]
            model, n = str(record.about.get("model", "")), Number(record.images, ",", "images")
            rows.append((model, task, HEADS.get(name, name), Phrase(tuple(parts)), n))
    return Table("Linear probes", ("model", "task", "head", "metrics", "images"), tuple(rows))


def show_table1(record: Record[Table1Result]) -> Iterator[Part]:
    """Yield the table, the published table, and notes."""
    yield table1(record)
    yield published(record.result.published)
    for note in record.result.notes:
        yield f"note: {note}"
    yield from file_lines(record)


@page_table("table1", "worth")
def table1(record: Record[Table1Result]) -> Table:
    """Return the scores of all models, and the shares of the teacher's scores."""
    return scores_table(record.result, record.images)


def scores_table(result: Table1Result, images: int) -> Table:
    """Return a row per model and a column per task, with R2 at the last layer."""
    columns = {name: metric for name, (_, metric) in columns_of_table().items()}
    rows = tuple(
        (row.row, *(_with_share(row, at, name, metric) for name, metric in columns.items()),
         Number(None if row.r2 is None else row.r2.value, ".3f", f"rows/{at}/r2"))
        for at, row in enumerate(result.rows)
    )  # fmt: skip
    title = f"Linear probes, n = {images:,} images: score (share of the teacher's [95% interval])"
    return Table(title, ("model", *(metric.label for metric in columns.values()), "R2"), rows)


def _with_share(row: Table1Row, at: int, name: str, metric: Metric) -> Cell:
    score = row.scores.get(name)
    if score is None:
        return ""
    shown = Number(score.value, metric.form, f"rows/{at}/{name}")
    if (share := row.recovered.get(name)) is None:
        return shown
    key = f"rows/{at}/recovered/{name}"
    return Phrase((shown, " (", Number(share, ".1%", f"{key}/value", (f"{key}/ci/0", f"{key}/ci/1")), ")"))


def published(rows: list[PublishedRow]) -> Table:
    """Return the published table."""
    shown: list[tuple[Cell, ...]] = []
    for row in rows:
        label = row.row + (", later version" if row.source == LATER else "")
        scores = ((row.top1, row.top1_spread), (row.miou, row.miou_spread), (row.rmse, row.rmse_spread))
        shown.append((label, *(_with_spread(*score) for score in scores)))
    return Table("", ("published, DINOv2 ViT-B", "ImageNet top-1", "ADE20k mIoU", "NYUv2 RMSE"), tuple(shown))


def _with_spread(value: float | None, spread: float | None) -> str:
    return "" if value is None else f"{value} ± {spread}" if spread is not None else f"{value}"


@singledispatch
def notebook(result: Any) -> list[Part]:
    """Return what a notebook shows of a result."""
    raise TypeError(f"no notebook view for {type(result).__name__}")


@notebook.register
def _(result: ProbeResult) -> list[Part]:
    return [heads_table(result, f"n = {result.images['report']:,} images [95% interval]"), *result.notes]


@notebook.register
def _(result: ProbeReport) -> list[Part]:
    return [heads_table(one, task, task) for task, one in result.by_task.items()]


@notebook.register
def _(result: Table1Result) -> list[Part]:
    first = next(iter(result.rows[0].tasks.values()))
    return [scores_table(result, first.images["report"]), *result.notes]
