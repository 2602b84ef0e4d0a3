"""Conditions of teachers and the outcome of each: how much better tied blocks do on it than on a random network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raptor.core.phases import Phases
from raptor.studies.analysis import Hypothesis, difference_interval, mixed_difference
from raptor.studies.jobs import Cost, Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, student_recipe
from raptor.studies.phase_summary import PhaseSummary, summarise_phases
from raptor.studies.registry import Claim
from raptor.studies.setting import StudentResult, StudySetting, TeacherResult
from raptor.studies.teachers import (
    EARLY,
    RANDOM,
    STANDARD,
    SUBSET,
    TIED,
    UNTRAINED,
    Recipe,
    checkpoint_job,
    dropped,
    early_job,
    random_job,
    random_network,
    teacher_name,
    trained_job,
    unique,
)

if TYPE_CHECKING:
    from raptor.render.charts import Figure

NULL_SEED = 1000  # of the noise of null networks, apart from that of the condition `random`


@dataclass(frozen=True)
class ConditionRow:
    """A teacher and its student with three blocks.

    Parameters
    ----------
    condition, drop_path, share, seed
        The condition, its rate of stochastic depth, the share of the training that is done, and the seed of the
        teacher and of the student.
    top1, student_top1, recovered
        Accuracy of the teacher and of the student, and their ratio.
    excess
        The outcome: `skill` less `null_skill`.
    skill, null_skill
        Skill at the last layer over holding layer 0 constant: of the student, and of a student of a random network
        with the teacher's norms.
    error_ratio
        Squared error of the student, relative to its own scale, divided by that of the random network's student: below
        1 if tied blocks do better on the teacher, NaN if the latter is 0. Unlike the excess, it has no ceiling where
        both skills are near 1.
    r2, r2_cls, r2_patch
        R2 at the last layer.
    within, between, verdict, phases, similarity
        The teacher's phases; see `PhaseSummary`.
    by_layer
        `skill`, `r2` and `pearson2` by token group at the layers 1..L.
    """

    condition: str
    drop_path: float
    share: float
    seed: int
    top1: float
    student_top1: float
    recovered: float
    excess: float
    skill: float
    null_skill: float
    error_ratio: float
    r2: float
    r2_cls: float
    r2_patch: float
    within: float
    between: float
    verdict: str
    phases: Phases
    similarity: list[list[float]]
    by_layer: dict[str, dict[str, list[float]]]


def teacher_jobs(setting: StudySetting, condition: str, seed: int) -> list[Job[Any]]:
    """Return the jobs that make the teacher of a condition; the last one is the teacher's own.

    Parameters
    ----------
    setting
        The setting of the study.
    condition
        `standard`, `drop0.3` (or another rate), `tied`, `subset` (trained on a few images), `untrained`, `at0.1` (after
        that share of the training), `early` (stopped at the accuracy of stochastic depth) or `random`.
    seed
        Seed of the teacher.
    """
    size, standard = setting.size, trained_job(setting, Recipe(STANDARD), seed)
    if condition == STANDARD:
        return [standard]
    if condition.startswith("drop"):
        return [trained_job(setting, dropped(float(condition.removeprefix("drop"))), seed)]
    if condition == TIED:
        return [trained_job(setting, Recipe(TIED, tied=True), seed)]
    if condition == SUBSET:
        return [trained_job(setting, Recipe(SUBSET, images=size.subset_images), seed)]
    if condition == EARLY:
        rates = [trained_job(setting, dropped(size.drop_path), one) for one in size.seeds]
        return [standard, *rates, early_job(setting, seed)]
    if condition == RANDOM:
        return [standard, random_job(setting, seed)]
    share = 0.0 if condition == UNTRAINED else float(condition.removeprefix("at"))
    return [standard, checkpoint_job(setting, seed, share)]


def condition_jobs(setting: StudySetting, conditions: Sequence[str], seeds: Sequence[int]) -> list[Job[Any]]:
    """Return for each condition and seed the teacher, its phases, its student, and a student of a random network."""
    jobs: list[Job[Any]] = []
    for condition in conditions:
        for seed in seeds:
            jobs += [*teacher_jobs(setting, condition, seed), look_job(setting, condition, seed)]
            jobs += [_student(setting, condition, seed, null) for null in (False, True)]
    return unique(jobs)


def look_job(setting: StudySetting, condition: str, seed: int) -> Job[PhaseSummary]:
    """Return the job that summarises the phases of a teacher."""
    teacher = teacher_name(condition, seed)

    def work(results: Results, out: Path) -> PhaseSummary:
        return summarise_phases(setting, setting.teacher(teacher))

    cache_key = {**setting.cache_key, "condition": condition, "seed": seed}
    cost = Cost(measured_images=setting.size.eval_images)
    return Job(_name("look", condition, seed), cache_key, PhaseSummary, work, (teacher,), cost)


def _student(setting: StudySetting, condition: str, seed: int, null: bool) -> Job[StudentResult]:
    """Return the job of a teacher's student, or of the student of a random network with the teacher's norms."""
    recipe, teacher, look = student_recipe(setting, seed), teacher_name(condition, seed), _name("look", condition, seed)

    def work(results: Results, out: Path) -> StudentResult:
        flow = setting.teacher(teacher)
        flow = random_network(flow, NULL_SEED + seed) if null else flow
        return distill_student(setting, flow, results.of(look, PhaseSummary).phases, recipe, keep_states=not null)

    cache_key = student_cache_key(setting, recipe, condition=condition, null=null)
    name = _name("null" if null else "student", condition, seed)
    return Job(name, cache_key, StudentResult, work, (teacher, look), student_cost(setting, name))


def student_name(condition: str, seed: int) -> str:
    """Return the name of the job of a teacher's student, whose phases are those by similarity."""
    return _name("student", condition, seed)


def _name(kind: str, condition: str, seed: int) -> str:
    return f"conditions/{kind}-{condition}-s{seed}"


def condition_rows(done: Done, conditions: Sequence[str], seeds: Sequence[int]) -> list[ConditionRow]:
    """Return a row for each condition and seed whose jobs have results."""
    rows = []
    for condition in conditions:
        for seed in seeds:
            teacher = done.results.find(teacher_name(condition, seed), TeacherResult)
            look = done.results.find(_name("look", condition, seed), PhaseSummary)
            student = done.results.find(_name("student", condition, seed), StudentResult)
            null = done.results.find(_name("null", condition, seed), StudentResult)
            if teacher is not None and look is not None and student is not None and null is not None:
                rows.append(_row(condition, teacher, look, student, null))
    return rows


def _row(
    condition: str, teacher: TeacherResult, look: PhaseSummary, student: StudentResult, null: StudentResult
) -> ConditionRow:
    skill, null_skill = student.last("skill"), null.last("skill")
    return ConditionRow(
        condition=condition,
        drop_path=teacher.drop_path,
        share=teacher.share,
        seed=teacher.seed,
        top1=teacher.top1.value,
        student_top1=student.surrogate.value,
        recovered=student.recovered.value,
        excess=skill - null_skill,
        skill=skill,
        null_skill=null_skill,
        error_ratio=(1 - skill) / (1 - null_skill) if null_skill < 1 else math.nan,
        r2=student.last("r2"),
        r2_cls=student.last("r2", "cls"),
        r2_patch=student.last("r2", "patch"),
        within=look.within,
        between=look.between,
        verdict=look.verdict,
        phases=look.phases,
        similarity=look.similarity,
        by_layer={"skill": student.skill.mean, "r2": student.r2.mean, "pearson2": student.pearson2.mean},
    )


def column(rows: Sequence[ConditionRow], name: str, condition: str) -> list[float]:
    """Return a number of every teacher of a condition."""
    return [float(getattr(row, name)) for row in rows if row.condition == condition]


def judge_excess(
    hypothesis: Hypothesis, rows: Sequence[ConditionRow], treated: str, control: str, evidence: str
) -> Claim:
    """Return the verdict on a hypothesis about the excess of one condition less that of another.

    Parameters
    ----------
    hypothesis
        The hypothesis.
    rows
        Teachers of both conditions. Those of one seed have the same initial weights and order of images, which the
        mixed model takes into account.
    treated, control
        The conditions.
    evidence
        Further numbers.
    """
    effect = difference_interval(column(rows, "excess", treated), column(rows, "excess", control))
    pairs = [[(row.seed, row.excess) for row in rows if row.condition == name] for name in (treated, control)]
    return hypothesis.judge(effect, evidence, mixed_difference(*pairs))


def draw_conditions(rows: list[ConditionRow], title: str) -> Figure:
    """Draw the matrices of the first seed, and the outcome and its parts by condition, with a dot per teacher."""
    import altair as alt

    from raptor.render.charts import Figure
    from raptor.studies.panels import R2, cells, matrices, strips

    firsts = [row for row in rows if row.seed == rows[0].seed]
    columns = {"excess": "excess of skill", "skill": "skill", "error_ratio": "error ratio",
               "r2": R2, "recovered": "accuracy recovered", "within": "cosine within phases"}  # fmt: skip
    table = cells(rows)
    chart = alt.vconcat(matrices(firsts, [row.condition for row in firsts]), strips(table, "condition", columns))
    return Figure(chart.properties(title=title), table)
