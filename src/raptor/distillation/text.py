"""What `raptor distill`, `raptor plan`, `raptor export` and `raptor push` show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import singledispatch
from pathlib import Path

from markupsafe import Markup

from raptor.distillation.export import ExportResult
from raptor.distillation.planning.cost import PlanResult
from raptor.distillation.push import PushResult
from raptor.distillation.result import DistillResult
from raptor.evaluation import tables
from raptor.render.registry import page_sentences, page_table
from raptor.render.tables import Part, Table, file_lines
from raptor.runtime.rundir import Record

FIDELITY = "fidelity/"  # beginning of the keys of fidelity in result.json


def show_distill(record: Record[DistillResult]) -> Iterator[Part]:
    """Yield how the surrogate was trained, its fidelity, and where it is."""
    yield f"surrogate {record.result.phases} of {record.about.get('model')}: {_training(record.result)}"
    yield from tables.parts(record.result.fidelity, record.images)
    yield from file_lines(record)
    if record.out is not None:
        yield f"model: {record.out}"


def show_plan(record: Record[PlanResult]) -> Iterator[Part]:
    """Yield the estimated cost."""
    yield _plan(record.result, f"{record.about.get('model')}, {record.result.dataset_size:,} images")


def show_export(record: Record[ExportResult]) -> Iterator[Part]:
    """Yield the file, and how much its output differs."""
    result = record.result
    yield f"{(record.out or Path()) / result.file}: differs by {result.max_difference:.1e} at most"


def show_push(record: Record[PushResult]) -> Iterator[Part]:
    """Yield the files, and where they are."""
    yield _files(record.result)
    yield _published(record.result)


@singledispatch
def notebook(result: object) -> list[Part]:
    """Return what a notebook shows."""
    raise TypeError(f"no view of {type(result).__name__}")


@notebook.register
def _(result: DistillResult) -> list[Part]:
    return [f"surrogate {result.phases}: {_training(result)}", *tables.parts(result.fidelity, result.fidelity.n)]


@notebook.register
def _(result: PlanResult) -> list[Part]:
    return [_plan(result, f"{result.dataset_size:,} images")]


@notebook.register
def _(result: ExportResult) -> list[Part]:
    return [f"{result.file}: differs by {result.max_difference:.1e} at most"]


@notebook.register
def _(result: PushResult) -> list[Part]:
    return [_files(result), _published(result)]


def _files(result: PushResult) -> Table:
    rows = tuple((name, f"{size:,}") for name, size in result.files.items())
    return Table(f"{result.id}, licence {result.license}", ("file", "bytes"), rows)


def _published(result: PushResult) -> str:
    return f"published at {result.url}" if result.uploaded else "nothing was uploaded (--dry-run)"


def _training(result: DistillResult) -> str:
    steps = " + ".join(map(str, result.steps))
    classes = (
        "" if result.head_weight is None else f", also trained on the teacher's classes (weight {result.head_weight:g})"
    )
    precision = "" if result.precision is None else f" in {result.precision}"
    return f"recipe {result.recipe}{classes}, {steps} steps{precision} at {result.images_per_second:.0f} images/s"


def _plan(result: PlanResult, title: str) -> Table:
    rows = (
        ("operations", f"{result.flops:.3g}"),
        ("time", f"{result.seconds / 3600:,.1f} hours on {result.devices} x {_device(result)}"),
        ("memory", f"{result.memory / 1e9:,.2f} GB"),
        ("disk", f"{result.disk / 1e9:,.2f} GB"),
        ("disk if stored", f"{result.disk_if_stored / 1e9:,.2f} GB"),
        *_expected(result),
    )
    return Table(title, (), rows)


def _device(result: PlanResult) -> str:
    return result.device if result.tflops is None else f"{result.tflops:g} TFLOP/s"


def _expected(result: PlanResult) -> Iterator[tuple[str, str]]:
    names = {"cosine": "expected cosine at the last layer", "recovered": "expected accuracy recovered"}
    for name, value in (result.expected or {}).items():
        yield names[name], f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}], from {value.n} runs"
    for what, scale, needed in (("images", 1, result.target_images), ("hours", 3600, result.target_seconds)):
        if needed is not None:
            middle, low, high = (
                f"{part / scale:,.0f}" if math.isfinite(part) else "not reached"
                for part in (needed.value, needed.low, needed.high)
            )
            yield f"{what} to recover {result.target:.0%} of the accuracy", f"{middle} [{low}, {high}]"


@page_sentences("distill", "surrogate", unless="fidelity")
def how_measured(record: Record[DistillResult]) -> list[str]:
    """Return how to read the tables of surrogates."""
    return [tables.HOW_MEASURED]


@page_table("distill", "surrogate", unless="fidelity")
def cost(record: Record[DistillResult]) -> Table:
    """Return what the surrogate keeps and costs."""
    result = record.result
    return tables.cost(result.fidelity, "Surrogate trained in this run", result.phases, record.images, FIDELITY)


@page_table("distill", "surrogate", unless="fidelity")
def linear(record: Record[DistillResult]) -> Table | None:
    """Return linear maps in place of each phase, beside the tied blocks."""
    return tables.linear(record.result.fidelity, "Surrogate trained in this run", FIDELITY)


@page_sentences("distill", "answer", unless="fidelity")
def answer(record: Record[DistillResult]) -> list[Markup]:
    """Return what was found, in a sentence."""
    run, result = "" if record.out is None else record.out.name, record.result
    return [
        tables.answer(result.fidelity, "Surrogate trained in this run", result.phases, record.images, run, FIDELITY)
    ]
