"""What `raptor study` shows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from raptor.core.serialize import to_plain
from raptor.render.registry import page_sentences, page_table
from raptor.render.tables import HELD, Part, Table, file_lines
from raptor.runtime.rundir import Record
from raptor.studies.analysis import written
from raptor.studies.cost import StudyPlan
from raptor.studies.every import AllStudies
from raptor.studies.registry import Claim
from raptor.studies.study import StudyResult


def show_study(record: Record[StudyResult[Any]] | Record[AllStudies] | Record[StudyPlan]) -> Iterator[Part]:
    """Yield the summary, the claim and failed jobs; of all studies their claims; of a plan, its cost."""
    if isinstance(record.result, (StudyPlan, AllStudies)):
        yield from notebook(record.result)
        return
    yield from _parts(record.result, f", n = {record.images:,} held-out images")
    yield from file_lines(record)


@singledispatch
def notebook(result: Any) -> Iterator[Part]:
    """Yield what a notebook shows of a study or of its plan."""
    raise TypeError(f"not a result of a study: {type(result).__name__}")


@notebook.register
def _study(result: StudyResult) -> Iterator[Part]:  # a class to dispatch on
    yield from _parts(result)


@notebook.register
def _plan(result: StudyPlan) -> Iterator[Part]:
    rows = (
        ("trains", f"{result.teachers} teachers, {result.students} students"),
        ("FLOPs", f"{result.flops:.3g}"),
        ("time", f"{result.seconds / 3600:,.1f} hours on {result.device}, as busy as it is now"),
        ("core-hours", f"{result.core_seconds / 3600:,.1f}"),
        ("disk", f"{result.disk / 1e9:,.2f} GB of states while it runs"),
    )
    yield Table(f"{result.study} ({result.size}) on {result.data}", (), rows)
    kinds: dict[str, list[float]] = {}
    for one in result.jobs:
        kinds.setdefault(one.job.partition("/")[0], []).append(one.core_seconds)
    columns = ("jobs", "number", "core-hours", "longest, minutes")
    by_kind = ((kind, str(len(own)), f"{sum(own) / 3600:,.2f}", f"{max(own) / 60:.1f}") for kind, own in kinds.items())
    yield Table("By kind of job; --json has every job", columns, tuple(by_kind))


@notebook.register
def _all(result: AllStudies) -> Iterator[Part]:
    columns = ("study", "claim", "result", "evidence")
    rows = tuple((one.study, one.claim.text, HELD[one.claim.held], _evidence(one.claim)) for one in result.studies)
    yield Table(f"All studies ({result.size}) on {result.data}", columns, rows)
    yield f"{result.finished} jobs took {result.job_hours:.2f} hours"
    for name in result.failed:
        yield f"failed: {name}"


def _parts(result: StudyResult[Any], images: str = "") -> Iterator[Part]:
    if rows := [_cells(row) for row in result.summary]:
        columns = tuple(name.replace("_", " ") for name in rows[0])
        title = f"{result.study} ({result.size.name}){images}"
        yield Table(title, columns, tuple(tuple(row.values()) for row in rows), drop_columns=True)
    claim = result.claim
    yield f"Claim of the paper: {claim.text}. Result: {HELD[claim.held]} ({_evidence(claim)})"
    for job in result.jobs:
        if job.failed is not None:
            yield f"failed: {job.job} ({job.failed})"


def _evidence(claim: Claim) -> str:
    if claim.mixed is None:
        return claim.evidence
    return f"{claim.evidence}. Mixed model with the seed of the teacher as random effect: {written(claim.mixed)}"


def _cells(row: Any) -> dict[str, str]:
    """Return a row of the summary without lists and mappings, as text."""
    plain = {name: value for name, value in to_plain(row).items() if not isinstance(value, (list, dict))}
    return {name: f"{value:.4f}" if isinstance(value, float) else str(value) for name, value in plain.items()}


@page_table("study", "studies")
def claims(record: Record[StudyResult[Any]]) -> Table:
    """Return the study's claim and whether it holds."""
    result, claim = record.result, record.result.claim
    row = (result.study, claim.text, HELD[claim.held], _evidence(claim))
    return Table("Studies", ("study", "claim of the paper", "result", "evidence"), (row,))


@page_sentences("study", "refuted")
def refuted(record: Record[StudyResult[Any]]) -> list[str]:
    """Return the study's claim where it does not hold."""
    claim = record.result.claim
    return [f"{claim.text[0].upper()}{claim.text[1:]}."] if claim.held is False else []
