"""Several teachers side by side (Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raptor.core.phases import Phases
from raptor.render.charts import Figure
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import teacher_job
from raptor.studies.phase_summary import PhaseSummary, rate_summary_job, summarise_phases
from raptor.studies.registry import Claim, Study, Summary, study
from raptor.studies.setting import StudySetting, TeacherResult

UNTRAINED = "untrained"


@dataclass(frozen=True)
class TeacherRow:
    """A teacher and its phases.

    Parameters
    ----------
    model, top1
        What distinguishes the teacher, and its accuracy; None where it is untrained.
    phases, verdict, suggested_k, within, between, similarity, n
        Its phases; see `PhaseSummary`.
    """

    model: str
    top1: float | None
    phases: Phases
    verdict: str
    suggested_k: int
    within: float
    between: float
    similarity: list[list[float]]
    n: int


@study("gallery", "Layer similarity of several models in the same colours, each with its own phases.", "Figure 1", True)
class Gallery(Study[TeacherRow]):
    """Layer similarity of teachers of all rates of stochastic depth and all widths, and of an untrained one."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return the teachers and their phases."""
        jobs = {job.name: job for pair in _teachers(setting).values() for job in pair}
        return list(jobs.values())

    def summarise(self, setting: StudySetting, done: Done) -> Summary[TeacherRow]:
        """Return a row for each teacher, and how many of the trained ones have phases."""
        rows = []
        for label, (teacher, phases) in _teachers(setting).items():
            found = done.results.find(phases.name, PhaseSummary)
            if found is None:
                continue
            trained = None if label == UNTRAINED else done.results.of(teacher.name, TeacherResult)
            rows.append(
                TeacherRow(
                    label, None if trained is None else trained.top1.value, found.phases, found.verdict,
                    found.suggested_k, found.within, found.between, found.similarity, found.n,
                )
            )  # fmt: skip
        known = [row for row in rows if row.model != UNTRAINED]
        blocks = sum(row.verdict == "blocks" for row in known)
        evidence = f"{blocks} of {len(known)} trained teachers are blocks; " + ", ".join(
            f"{row.model}: {row.verdict} ({row.phases})" for row in rows
        )
        held = None if not known else blocks == len(known)
        return Summary(rows, Claim("the depth of trained ViTs has phases", held, evidence))

    def draw(self, rows: list[TeacherRow]) -> Figure:
        """Draw the matrices."""
        from raptor.studies.panels import cells, matrices

        chart = matrices(rows, [row.model for row in rows]).properties(title="Similarity between layers")
        return Figure(chart, cells(rows))


def _teachers(setting: StudySetting) -> dict[str, tuple[Job[TeacherResult], Job[PhaseSummary]]]:
    """Return by label the job that trains a teacher and the job that summarises its phases."""
    size = setting.size
    found: dict[str, tuple[Job[TeacherResult], Job[PhaseSummary]]] = {}
    for rate in size.drop_paths:
        teacher = teacher_job(setting, rate)
        found[f"drop path {rate:g}"] = teacher, rate_summary_job(setting, teacher.name, rate)
    for width in size.widths:
        if width != size.width:
            teacher = teacher_job(setting, width=width)
            found[f"width {width}"] = teacher, _summary(setting, teacher.name, f"w{width}", 1.0)
    if 0.0 in size.checkpoints:
        teacher = teacher_job(setting)
        found[UNTRAINED] = teacher, _summary(setting, teacher.name, UNTRAINED, 0.0)
    return found


def _summary(setting: StudySetting, teacher: str, label: str, share: float) -> Job[PhaseSummary]:
    def work(results: Results, out: Path) -> PhaseSummary:
        return summarise_phases(setting, setting.teacher(teacher, share))

    return Job(f"gallery/{label}", {**setting.cache_key, "share": share}, PhaseSummary, work, (teacher,))
