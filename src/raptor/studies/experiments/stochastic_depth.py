"""Does stochastic depth make depth more recurrent? (Figure 4)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from raptor.core.correlation import exact_rank_correlation, linear_correlation
from raptor.core.phases import Phases
from raptor.distillation.recipes import distillation_named
from raptor.render.charts import Figure
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, teacher_job
from raptor.studies.phase_summary import PhaseSummary, rate_summary_job
from raptor.studies.registry import Claim, Study, Summary, mean, study
from raptor.studies.setting import StudentResult, StudySetting, TeacherResult


@dataclass(frozen=True)
class RateRow:
    """A student of the teacher with one rate of stochastic depth.

    Parameters
    ----------
    drop_path, seed
        The rate, and the student's seed.
    top1, student_top1, recovered
        Accuracy of the teacher and of the student, and their ratio.
    r2, r2_cls, r2_patch
        Fidelity at the last layer.
    within, between, verdict, phases, similarity
        The teacher's phases; see `PhaseSummary`.
    by_layer
        `r2` and `pearson2` by token group at the layers 1..L.
    """

    drop_path: float
    seed: int
    top1: float
    student_top1: float
    recovered: float
    r2: float
    r2_cls: float
    r2_patch: float
    within: float
    between: float
    verdict: str
    phases: Phases
    similarity: list[list[float]]
    by_layer: dict[str, dict[str, list[float]]]


@study(
    "stochastic-depth",
    "Each dot is a student. The claim and its evidence are in the table of studies.",
    "Figure 4",
    wide=True,
)
class StochasticDepth(Study[RateRow]):
    """Teachers with several rates of stochastic depth, and students of each."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return for each rate a teacher, its phases, and a student per seed."""
        jobs: list[Job[Any]] = []
        for rate in setting.size.drop_paths:
            teacher = teacher_job(setting, rate)
            summary = rate_summary_job(setting, teacher.name, rate)
            students = [_student(setting, teacher.name, summary.name, rate, seed) for seed in setting.size.seeds]
            jobs += [teacher, summary, *students]
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[RateRow]:
        """Return a row for each rate and seed, and whether fidelity rises with the rate."""
        rows = []
        for rate in setting.size.drop_paths:
            teacher = done.results.find(teacher_job(setting, rate).name, TeacherResult)
            summary = done.results.find(f"stochastic-depth/look-p{rate:g}", PhaseSummary)
            for seed in setting.size.seeds:
                student = done.results.find(_student_name(rate, seed), StudentResult)
                if teacher is not None and summary is not None and student is not None:
                    rows.append(_row(rate, seed, teacher, summary, student))
        return Summary(rows, Claim("stochastic depth makes surrogates closer", *_judge(rows)))

    def draw(self, rows: list[RateRow]) -> Figure:
        """Draw Figure 4: matrices, fidelity by layer, and accuracy and similarity by rate."""
        import altair as alt

        from raptor.render.charts import PALETTE
        from raptor.studies.panels import R2, cells, lines, matrices, points

        x, table, rates = "rate of stochastic depth", cells(rows), sorted({row.drop_path for row in rows})
        firsts = [row for row in rows if row.seed == rows[0].seed]
        accuracy = [
            {"drop_path": row.drop_path, "of": name, "top1": value}
            for row in rows
            for name, value in (("teacher", row.top1), ("Raptor", row.student_top1))
        ]
        of = alt.Color("of:N", title=None, scale=alt.Scale(domain=["teacher", "Raptor"], range=["#000000", PALETTE[0]]))
        curves = [
            lines(
                {rate: [row.by_layer[measure][group] for row in rows if row.drop_path == rate] for rate in rates},
                "drop path",
                f"{measure} of {group}",
            )
            for measure in ("r2", "pearson2")
            for group in ("cls", "patch")
        ]
        chart = alt.vconcat(
            matrices(firsts, [f"drop path {row.drop_path:g}" for row in firsts]),
            alt.hconcat(*curves),
            alt.hconcat(
                points(accuracy, "drop_path", "top1", x, "top-1", color=of),
                points(table, "drop_path", "r2", x, R2),
                points(table, "top1", "r2", "top-1 of the teacher", R2),
                points(table, "within", "r2", "cosine within phases", R2),
            ),
        )
        return Figure(chart.properties(title="Stochastic depth"), table)


def _student_name(rate: float, seed: int) -> str:
    return f"stochastic-depth/student-p{rate:g}-s{seed}"


def _student(setting: StudySetting, teacher: str, summary: str, rate: float, seed: int) -> Job[StudentResult]:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, seed)

    def work(results: Results, out: Path) -> StudentResult:
        return distill_student(setting, setting.teacher(teacher), results.of(summary, PhaseSummary).phases, recipe)

    cache_key = student_cache_key(setting, recipe, drop_path=rate)
    return Job(_student_name(rate, seed), cache_key, StudentResult, work, (teacher, summary), student_cost(setting))


def _row(rate: float, seed: int, teacher: TeacherResult, summary: PhaseSummary, student: StudentResult) -> RateRow:
    return RateRow(
        drop_path=rate,
        seed=seed,
        top1=teacher.top1.value,
        student_top1=student.surrogate.value,
        recovered=student.recovered.value,
        r2=student.last_r2(),
        r2_cls=student.last_r2("cls"),
        r2_patch=student.last_r2("patch"),
        within=summary.within,
        between=summary.between,
        verdict=summary.verdict,
        phases=summary.phases,
        similarity=summary.similarity,
        by_layer={"r2": student.r2.mean, "pearson2": student.pearson2.mean},
    )


def _judge(rows: list[RateRow]) -> tuple[bool | None, str]:
    """Return whether fidelity rises with the rate, and the correlations behind the verdict.

    Students of one teacher are not independent evidence on its rate: they are averaged, and p is over all pairings of
    teachers with rates.
    """
    rates = sorted({row.drop_path for row in rows})
    of = {rate: [row for row in rows if row.drop_path == rate] for rate in rates}
    r2, within, top1, recovered = (
        [mean(float(getattr(row, name)) for row in of[rate]) for rate in rates]
        for name in ("r2", "within", "top1", "recovered")
    )
    pairs = {
        "R2 at the last layer with the rate": (rates, r2),
        "similarity within phases with the rate": (rates, within),
        "share of the accuracy recovered with the rate": (rates, recovered),
        "R2 with similarity within phases": (within, r2),
        "R2 with the teacher's accuracy": (top1, r2),
    }
    found = {name: exact_rank_correlation(*pair) for name, pair in pairs.items()}
    rise, p = found["R2 at the last layer with the rate"]
    evidence = (
        f"rank correlations over {len(rates)} teachers, each the mean of its {len(rows) // max(1, len(rates))} "
        "students, with one-sided p: "
        + "; ".join(f"{name} {rho:.2f} ({chance:.3f})" for name, (rho, chance) in found.items())
    )
    if all(later < earlier for earlier, later in pairwise(top1)) and len(rates) > 1:
        evidence += ". Accuracy falls with the rate: the effects of the rate and of learning less cannot be separated"
    r, low, high = linear_correlation(within, r2)
    if not math.isnan(r):
        evidence += f". Linear correlation of R2 with similarity within phases {r:.2f} [{low:.2f}, {high:.2f}]"
    return (None if math.isnan(rise) else bool(rise > 0 and p < 0.05)), evidence
