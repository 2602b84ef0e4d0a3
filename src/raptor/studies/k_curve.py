"""How many blocks are worth having? (Figure 5, with the k that the similarity suggests)"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from raptor.selection import find_phases
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import Setting, student_about, student_cost, student_of, teacher_job
from raptor.studies.study import Claim, Study, Summary
from raptor.training.recipes import distillation_named

WORTH = 0.01  # gain of R2 a block below which more blocks do not pay


def jobs(setting: Setting) -> Sequence[Job]:
    """Return teachers of several widths, and students of each by number of blocks."""
    table: list[Job] = []
    for width in setting.size.widths:
        teacher = teacher_job(setting, width=width)
        ks = [k for k in setting.size.ks if k <= setting.size.depth]
        table += [teacher, *(_student(setting, teacher.name, width, k) for k in ks)]
    return table


def _student(setting: Setting, teacher: str, width: int, k: int) -> Job:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, setting.size.seed)

    def work(results: Results, out: Path) -> dict[str, Any]:
        flow = setting.teacher(teacher)
        # A single layer may be a block of its own where many blocks are asked for, but is no evidence of phases.
        cut = find_phases(flow, setting.held_out(), k=k, min_length=1)
        told = find_phases(flow, setting.held_out())
        student = student_of(setting, flow, cut.phases, recipe)
        return {**student, "suggested_k": told.suggested_k, "useful_k": told.useful_k}

    about = student_about(setting, recipe, width=width, k=k)
    return Job(f"k-curve/w{width}-k{k}", about, work, (teacher,), student_cost(setting, width))


def summarise(setting: Setting, done: Done) -> Summary:
    """Return fidelity by number of blocks, and where more of them stop paying."""
    rows = [
        {"width": width, "k": k, "phases": found["phases"], "r2": found["r2"]["all"][-1],
         "recovered": found["recovered"], "parameters": found["parameters"], "suggested_k": found["suggested_k"],
         "useful_k": found["useful_k"]}
        for width in setting.size.widths
        for k in setting.size.ks
        if (found := done.results.get(f"k-curve/w{width}-k{k}")) is not None
    ]  # fmt: skip
    said, same = [], []
    for width in setting.size.widths:
        own = sorted((row for row in rows if row["width"] == width), key=lambda row: row["k"])
        if len(own) < 2:
            continue
        stop = next((n for n, (row, after) in enumerate(pairwise(own)) if _a_block(row, after) < WORTH), len(own) - 1)
        # Not every number of blocks is tried: it is told if none that was lies between.
        below = own[stop - 1]["k"] if stop else 0
        above = own[stop + 1]["k"] if stop + 1 < len(own) else setting.size.depth + 1
        same.append(below < own[0]["useful_k"] < above)
        first, last = own[0], own[-1]
        said.append(
            f"width {width}: R2 {first['r2']:.3f} with {first['k']} to {last['r2']:.3f} with {last['k']}; a block more "
            f"adds below {WORTH} from k = {own[stop]['k']} on (useful k: {first['useful_k']}, suggested: "
            f"{first['suggested_k']})"
        )
    text = "few blocks are enough, and the similarity tells how many"
    return Summary(rows, Claim(text, all(same) if same else None, "; ".join(said)))


def _a_block(row: dict[str, Any], after: dict[str, Any]) -> float:
    """Return what a block more adds to R2."""
    return float((after["r2"] - row["r2"]) / (after["k"] - row["k"]))


STUDY = Study("fidelity and accuracy against the number of blocks, for two sizes of teacher", jobs, summarise)
