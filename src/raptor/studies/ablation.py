"""What does each part of the recipe add? (Table 2)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from raptor.phases import Phases
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.look import look_at
from raptor.studies.models import Setting, student_about, student_cost, student_of, teacher_job, tuned_student_of
from raptor.studies.study import Claim, Study, Summary, mean
from raptor.training.recipes import Distillation, distillation_named

K = 3
LOOK = "ablation/look"
TUNED = "+ probe fine-tuning"
WHOLE_TIME = 1e9  # share of the steps over which forcing falls: it does not


def recipes(setting: Setting, seed: int) -> dict[str, Distillation]:
    """Return the rows: the paper's steps one after the other, then our own beside the last of them."""
    steps, batch = setting.size.student_steps, setting.size.student_batch

    whole = distillation_named("paper", steps, batch, seed, lr=setting.size.student_lr)
    apart = replace(whole, joined=replace(whole.joined, steps=0))
    unweighted = replace(apart, last_weights=None)
    bare = replace(unweighted, block={**whole.block, "depth_scale": False})
    return {
        "teacher forcing": replace(bare, forcing=1.0, forcing_share=WHOLE_TIME),
        "+ autoregressive": bare,
        "+ depth scaling": unweighted,
        "+ weighted cls": apart,
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


def jobs(setting: Setting) -> Sequence[Job]:
    """Return a teacher, its phases, and a student for each row and seed."""
    teacher = teacher_job(setting)

    def look(results: Results, out: Path) -> dict[str, Any]:
        return look_at(setting, setting.teacher(teacher.name), K)

    table = [teacher, Job(LOOK, setting.about, look, (teacher.name,))]
    for seed in setting.size.seeds:
        for number, (label, recipe) in enumerate(recipes(setting, seed).items()):
            table.append(_student(setting, teacher.name, number, label, recipe, seed))
    return table


def _student(setting: Setting, teacher: str, number: int, label: str, recipe: Distillation, seed: int) -> Job:
    def work(results: Results, out: Path) -> dict[str, Any]:
        phases = Phases.parse(results[LOOK]["phases"])
        distilled = tuned_student_of if label == TUNED else student_of
        return distilled(setting, setting.teacher(teacher), phases, recipe)

    about = student_about(setting, recipe, row=label)
    return Job(f"ablation/{number:02}-s{seed}", about, work, (teacher, LOOK), student_cost(setting))


def summarise(setting: Setting, done: Done) -> Summary:
    """Return means over seeds by row, and whether each of the paper's steps adds something."""
    labels = list(recipes(setting, 0))
    rows = []
    for number, label in enumerate(labels):
        found = [done.results.get(f"ablation/{number:02}-s{seed}") for seed in setting.size.seeds]
        own = [one for one in found if one is not None]
        if own:
            rows.append({"row": label, "n": len(own), **_means(own)})
    # A probe changes what is read, not the trajectory: it is no step of closeness.
    paper = [row for row in rows if row["row"] == labels[0] or (row["row"].startswith("+") and row["row"] != TUNED)]
    steps = [(after["row"], after["r2"] - before["r2"]) for before, after in pairwise(paper)]
    evidence = "change of R2 at the last layer: " + ", ".join(f"{label} {change:+.3f}" for label, change in steps)
    held = None if len(paper) < 5 else all(change > 0 for _, change in steps)
    return Summary(rows, Claim("each step of the recipe makes the surrogate closer", held, evidence))


def _means(found: list[dict[str, Any]]) -> dict[str, Any]:
    values = {"r2": [one["r2"]["all"][-1] for one in found], "r2_cls": [one["r2"]["cls"][-1] for one in found],
              "recovered": [one["recovered"] for one in found],
              "train_seconds": [one["train_seconds"] for one in found]}  # fmt: skip
    means = {name: mean(value) for name, value in values.items()}
    return {**means, **{f"{name}_by_seed": value for name, value in values.items()}}


STUDY = Study("the paper's recipe step by step, and ours beside it", jobs, summarise)
