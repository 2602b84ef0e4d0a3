"""Do phases emerge with training? (Figure 11)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.serialize import Key
from raptor.distillation.recipes import distillation_named
from raptor.render.charts import Figure
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, teacher_job
from raptor.studies.phase_summary import PhaseSummary, summarise_phases
from raptor.studies.registry import Claim, Study, Summary, study
from raptor.studies.setting import StudentResult, StudySetting

CLAIM = "training makes layers of a phase more alike and cls better reconstructed"


@dataclass(frozen=True)
class CheckpointResult:
    """The phases of a checkpoint, and a student of it."""

    summary: Annotated[PhaseSummary, Key(inline=True)]
    student: StudentResult


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint of the teacher.

    Parameters
    ----------
    share
        Share of the training that is done.
    top1
        The teacher's accuracy.
    within, between, verdict, suggested_k, phases, similarity
        Its phases; see `PhaseSummary`.
    r2, r2_cls, cosine_cls
        Fidelity of the student at the last layer, of all tokens and of cls.
    """

    share: float
    top1: float
    within: float
    between: float
    verdict: str
    suggested_k: int
    phases: Phases
    similarity: list[list[float]]
    r2: float
    r2_cls: Estimate[float]
    cosine_cls: float


@study("emergence", "One teacher during its training, from random weights to the end.", "Figure 11", wide=True)
class Emergence(Study[CheckpointRow]):
    """One teacher during its training, from random weights to the end."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return a teacher, and for each checkpoint its phases and a student."""
        teacher = teacher_job(setting)
        return [teacher, *(_checkpoint(setting, teacher.name, share) for share in setting.size.checkpoints)]

    def summarise(self, setting: StudySetting, done: Done) -> Summary[CheckpointRow]:
        """Return a row for each checkpoint, and what training has changed."""
        found = {share: done.results.find(_name(share), CheckpointResult) for share in setting.size.checkpoints}
        rows = [_row(share, one) for share, one in found.items() if one is not None]
        if len(rows) < 2:
            return Summary(rows, Claim(CLAIM, None, "too few checkpoints"))
        first, last = rows[0], rows[-1]
        evidence = "; ".join(
            f"{name}: cosine {row.within:.3f} within phases and {row.between:.3f} between, R2 of cls "
            f"{row.r2_cls.value:.3f} [{row.r2_cls.low:.3f}, {row.r2_cls.high:.3f}], structure: {row.verdict}"
            for name, row in (("untrained", first), ("trained", last))
        )
        # Better reconstructed means that the intervals over images do not overlap.
        held = last.within > first.within and last.r2_cls.low > first.r2_cls.high
        return Summary(rows, Claim(CLAIM, held, evidence))

    def draw(self, rows: list[CheckpointRow]) -> Figure:
        """Draw the matrices, similarity and fidelity during training."""
        import altair as alt

        from raptor.studies.panels import R2, cells, matrices, points

        names = {"within": "cosine within phases", "between": "cosine between phases", "r2": R2,
                 "r2_cls": "R2 of cls", "top1": "top-1"}  # fmt: skip
        table = cells(rows)
        panels = [
            points(table, "share", name, "share of the training", title).mark_line(point=True)
            for name, title in names.items()
        ]
        titles = [f"after {row.share:.0%} of the training" for row in rows]
        chart = alt.vconcat(matrices(rows, titles), alt.hconcat(*panels))
        return Figure(chart.properties(title="During training"), table)


def _name(share: float) -> str:
    return f"emergence/at-{share:g}"


def _checkpoint(setting: StudySetting, teacher: str, share: float) -> Job[CheckpointResult]:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, setting.size.seed)

    def work(results: Results, out: Path) -> CheckpointResult:
        flow = setting.teacher(teacher, share)
        summary = summarise_phases(setting, flow)
        return CheckpointResult(summary, distill_student(setting, flow, summary.phases, recipe))

    cache_key = student_cache_key(setting, recipe, share=share)
    return Job(_name(share), cache_key, CheckpointResult, work, (teacher,), student_cost(setting))


def _row(share: float, found: CheckpointResult) -> CheckpointRow:
    summary, student = found.summary, found.student
    return CheckpointRow(
        share=share,
        top1=student.teacher.value,
        within=summary.within,
        between=summary.between,
        verdict=summary.verdict,
        suggested_k=summary.suggested_k,
        phases=summary.phases,
        similarity=summary.similarity,
        r2=student.last_r2(),
        r2_cls=student.r2.at("cls", -1),
        cosine_cls=student.cosine.mean["cls"][-1],
    )
