"""What does each part of the recipe add? (Table 2)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from raptor.distillation.recipes import Distillation, distillation_named
from raptor.render.charts import Figure, chart_of
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import distill_probed_student, distill_student, student_cache_key, student_cost, teacher_job
from raptor.studies.phase_summary import PhaseSummary, summarise_phases
from raptor.studies.registry import Claim, Study, Summary, mean, study
from raptor.studies.setting import StudentResult, StudySetting

SUMMARY = "ablation/look"
TUNED = "+ probe fine-tuning"
ALL_STEPS = 1e9  # share of the steps over which teacher forcing falls: it does not fall


@dataclass(frozen=True)
class RecipeRow:
    """Students of one recipe, over seeds.

    Parameters
    ----------
    row, n
        The recipe, and the number of seeds.
    r2, r2_cls, recovered, train_seconds
        Means over seeds: fidelity at the last layer, recovered accuracy, seconds of training.
    r2_by_seed, r2_cls_by_seed, recovered_by_seed, train_seconds_by_seed
        The same for each seed.
    """

    row: str
    n: int
    r2: float
    r2_cls: float
    recovered: float
    train_seconds: float
    r2_by_seed: list[float]
    r2_cls_by_seed: list[float]
    recovered_by_seed: list[float]
    train_seconds_by_seed: list[float]


@study("ablation", "Each dot is a seed; rows are recipes.", "Table 2", wide=True)
class Ablation(Study[RecipeRow]):
    """The paper's recipe step by step, and our own variants."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return a teacher, its phases, and a student for each recipe and seed."""
        teacher = teacher_job(setting)

        def summarise(results: Results, out: Path) -> PhaseSummary:
            return summarise_phases(setting, setting.teacher(teacher.name))

        jobs: list[Job[Any]] = [teacher, Job(SUMMARY, setting.cache_key, PhaseSummary, summarise, (teacher.name,))]
        for seed in setting.size.seeds:
            for number, (label, recipe) in enumerate(recipes(setting, seed).items()):
                jobs.append(_student(setting, teacher.name, number, label, recipe, seed))
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[RecipeRow]:
        """Return means over seeds by recipe, and whether each of the paper's steps adds something."""
        labels, rows = list(recipes(setting, 0)), []
        for number, label in enumerate(labels):
            found = [done.results.find(_name(number, seed), StudentResult) for seed in setting.size.seeds]
            own = [one for one in found if one is not None]
            if own:
                rows.append(_row(label, own))
        # A probe changes what is read, not the trajectory: it is not a step towards fidelity.
        paper = [row for row in rows if row.row == labels[0] or (row.row.startswith("+") and row.row != TUNED)]
        steps = [(after.row, after.r2 - before.r2) for before, after in pairwise(paper)]
        evidence = "change of R2 at the last layer: " + ", ".join(f"{label} {change:+.3f}" for label, change in steps)
        held = None if len(paper) < 5 else all(change > 0 for _, change in steps)
        return Summary(rows, Claim("each step of the recipe makes the surrogate closer", held, evidence))

    def draw(self, rows: list[RecipeRow]) -> Figure:
        """Draw each recipe as a row, with one dot per seed."""
        import altair as alt

        from raptor.render.charts import PALETTE
        from raptor.studies.panels import PANEL, R2, cells

        panels = []
        columns = {R2: "r2_by_seed", "R2 of cls": "r2_cls_by_seed", "accuracy recovered": "recovered_by_seed"}
        for title, column in columns.items():
            seeds = [{"row": row.row, "value": value} for row in rows for value in getattr(row, column)]
            base = chart_of(seeds).mark_point(filled=True, opacity=0.7, color=PALETTE[4])
            x = alt.X("value:Q", title=title, scale=alt.Scale(zero=False))
            y = alt.Y("row:N", sort=[row.row for row in rows], title=None)
            panels.append(base.encode(x=x, y=y).properties(width=PANEL, height=PANEL))
        return Figure(alt.hconcat(*panels).properties(title="What each part adds"), cells(rows))


def recipes(setting: StudySetting, seed: int) -> dict[str, Distillation]:
    """Return the recipes by label: the paper's steps in their order, then variants of the last one, and our own."""
    steps, batch = setting.size.student_steps, setting.size.student_batch

    whole = distillation_named("paper", steps, batch, seed, lr=setting.size.student_lr)
    blockwise = replace(whole, end_to_end=replace(whole.end_to_end, steps=0))
    unweighted = replace(blockwise, last_weights=None)
    unscaled = replace(unweighted, block={**whole.block, "depth_scale": False})
    return {
        "teacher forcing": replace(unscaled, forcing=1.0, forcing_share=ALL_STEPS),
        "+ autoregressive": unscaled,
        "+ depth scaling": unweighted,
        "+ weighted cls": blockwise,
        "+ joined stage": whole,
        TUNED: whole,
        "GELU": replace(whole, kind="gelu"),
        "ratio 8/3": replace(whole, block={**whole.block, "mlp_ratio": 8 / 3}),
        "normalised loss": replace(whole, normalise=True),
        "teacher's blocks": replace(whole, kind="teacher", block={}),
        "default": distillation_named("default", steps, batch, seed),
        "default, untied": distillation_named("default", steps, batch, seed, untied=True),
        "released": distillation_named("released", steps, batch, seed, lr=setting.size.student_lr),
    }


def _name(number: int, seed: int) -> str:
    return f"ablation/{number:02}-s{seed}"


def _student(
    setting: StudySetting, teacher: str, number: int, label: str, recipe: Distillation, seed: int
) -> Job[StudentResult]:
    def work(results: Results, out: Path) -> StudentResult:
        phases = results.of(SUMMARY, PhaseSummary).phases
        distil = distill_probed_student if label == TUNED else distill_student
        return distil(setting, setting.teacher(teacher), phases, recipe)

    cache_key = student_cache_key(setting, recipe, row=label)
    return Job(_name(number, seed), cache_key, StudentResult, work, (teacher, SUMMARY), student_cost(setting))


def _row(label: str, students: list[StudentResult]) -> RecipeRow:
    r2 = [one.last_r2() for one in students]
    r2_cls = [one.last_r2("cls") for one in students]
    recovered = [one.recovered.value for one in students]
    seconds = [one.train_seconds for one in students]
    return RecipeRow(
        label, len(students), mean(r2), mean(r2_cls), mean(recovered), mean(seconds), r2, r2_cls, recovered, seconds
    )
