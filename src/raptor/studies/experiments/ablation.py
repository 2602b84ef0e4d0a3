"""What does each part of the recipe add? (Table 2)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from raptor.core.estimate import Estimate
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.recipes import distillation_named
from raptor.render.charts import Figure
from raptor.studies.analysis import Hypothesis, mean_interval, written
from raptor.studies.conditions import look_job, student_name, teacher_jobs
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import (
    distill_probed_student,
    distill_student,
    student_cache_key,
    student_cost,
    student_recipe,
)
from raptor.studies.phase_summary import PhaseSummary
from raptor.studies.registry import Claim, Study, Summary, study
from raptor.studies.setting import StudentResult, StudySetting
from raptor.studies.teachers import STANDARD, teacher_name

HYPOTHESIS = Hypothesis(
    "each step of the recipe makes the surrogate more accurate", 0.01, "change of top-1 of the weakest step"
)
WHOLE, TUNED, DEFAULT = "+ joined stage", "+ probe fine-tuning", "default"
ALL_STEPS = 1e9  # share of the steps over which teacher forcing falls: it does not fall


@dataclass(frozen=True)
class RecipeRow:
    """A student of one recipe.

    Parameters
    ----------
    row, seed
        The recipe, and the seed of the teacher and of the student.
    top1, recovered
        Accuracy of the student, and its ratio to the teacher's.
    skill, r2, r2_cls, train_seconds
        Fidelity at the last layer, and seconds of training.
    """

    row: str
    seed: int
    top1: float
    recovered: float
    skill: float
    r2: float
    r2_cls: float
    train_seconds: float


@study("ablation", "Each dot is a seed; rows are recipes with equal numbers of steps.", "Table 2", wide=True)
class Ablation(Study[RecipeRow]):
    """The paper's recipe step by step, and our own variants."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return for each seed a teacher, its phases, and a student of each recipe."""
        jobs: list[Job[Any]] = []
        for seed in setting.size.seeds:
            jobs += [*teacher_jobs(setting, STANDARD, seed), look_job(setting, STANDARD, seed)]
            for number, (label, recipe) in enumerate(recipes(setting, seed).items()):
                jobs.append(_student(setting, number, label, recipe, seed))
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[RecipeRow]:
        """Return a row per recipe and seed, and whether each of the paper's steps adds accuracy."""
        labels = list(recipes(setting, 0))
        rows = [
            _row(label, seed, found)
            for number, label in enumerate(labels)
            for seed in setting.size.seeds
            if (found := done.results.find(_name(number, seed), StudentResult)) is not None
        ]
        steps = [label for label in labels if label == labels[0] or label.startswith("+")]
        return Summary(rows, judge_steps(rows, steps))

    def draw(self, rows: list[RecipeRow]) -> Figure:
        """Draw each recipe as a row, with one dot per seed."""
        from raptor.studies.panels import R2, cells, strips

        table = [{**row, "row": str(row["row"]).replace(WHOLE, "+ end-to-end stage")} for row in cells(rows)]
        columns = {"top1": "top-1", "recovered": "accuracy recovered", "skill": "skill", "r2": R2}
        return Figure(strips(table, "row", columns).properties(title="What each part adds"), table)


def judge_steps(rows: list[RecipeRow], steps: list[str]) -> Claim:
    """Return whether every step adds accuracy: the interval of each change is above 0.

    A single step whose change is below the smallest effect of interest refutes it.
    """
    changes: dict[str, Estimate[float]] = {}
    for before, after in pairwise(steps):
        by_seed = [{row.seed: row.top1 for row in rows if row.row == label} for label in (before, after)]
        shared = sorted(by_seed[0].keys() & by_seed[1].keys())
        changes[after] = mean_interval([by_seed[1][seed] - by_seed[0][seed] for seed in shared])
    refuting = [one for one in changes.values() if one.high < HYPOTHESIS.smallest]
    unsure = [one for one in changes.values() if not one.low > 0]  # without an interval too
    weakest = min(refuting or unsure or changes.values(), key=lambda one: (not math.isnan(one.value), one.value))
    return HYPOTHESIS.judge(weakest, "; ".join(f"{label} {written(one)}" for label, one in changes.items()))


def recipes(setting: StudySetting, seed: int) -> dict[str, Distillation]:
    """Return the recipes by label: the paper's steps in their order, then variants of the last one, and our own.

    All have the same number of steps in total: those without an end-to-end stage have a longer blockwise one.
    """
    steps, batch = setting.size.student_steps, setting.size.student_batch

    whole = distillation_named("paper", steps, batch, seed, lr=setting.size.student_lr)
    longer = distillation_named("paper", 2 * steps, batch, seed, lr=setting.size.student_lr)
    blockwise = replace(longer, end_to_end=replace(longer.end_to_end, steps=0))
    unweighted = replace(blockwise, last_weights=None)
    unscaled = replace(unweighted, block={**whole.block, "depth_scale": False})
    return {
        "teacher forcing": replace(unscaled, forcing=1.0, forcing_share=ALL_STEPS),
        "+ autoregressive": unscaled,
        "+ depth scaling": unweighted,
        "+ weighted cls": blockwise,
        WHOLE: whole,
        TUNED: whole,
        "GELU": replace(whole, kind="gelu"),
        "ratio 8/3": replace(whole, block={**whole.block, "mlp_ratio": 8 / 3}),
        "normalised loss": replace(whole, normalise=True),
        "teacher's blocks": replace(whole, kind="teacher", block={}),
        DEFAULT: student_recipe(setting, seed),
        "default, untied": replace(student_recipe(setting, seed), block={"untied": True}),
        "released": distillation_named("released", steps, batch, seed, lr=setting.size.student_lr),
    }


def _name(number: int, seed: int) -> str:
    return f"ablation/{number:02}-s{seed}"


def _student(setting: StudySetting, number: int, label: str, recipe: Distillation, seed: int) -> Job[StudentResult]:
    teacher, look = teacher_name(STANDARD, seed), look_job(setting, STANDARD, seed).name

    def work(results: Results, out: Path) -> StudentResult:
        phases = results.of(look, PhaseSummary).phases
        distil = distill_probed_student if label == TUNED else distill_student
        return distil(setting, setting.teacher(teacher), phases, recipe)

    cache_key = student_cache_key(setting, recipe, row=label)
    whole = list(recipes(setting, seed)).index(WHOLE)
    trains = student_name(STANDARD, seed) if label == DEFAULT else _name(whole if label == TUNED else number, seed)
    return Job(_name(number, seed), cache_key, StudentResult, work, (teacher, look), student_cost(setting, trains))


def _row(label: str, seed: int, one: StudentResult) -> RecipeRow:
    return RecipeRow(
        label, seed, one.surrogate.value, one.recovered.value, one.last("skill"), one.last("r2"), one.last("r2", "cls"),
        one.train_seconds,
    )  # fmt: skip
