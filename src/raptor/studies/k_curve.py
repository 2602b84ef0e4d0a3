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
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch)

    def work(results: Results, out: Path) -> dict[str, Any]:
        flow = setting.teacher(teacher)
        found = find_phases(flow, setting.held_out(), k=k, min_length=1)
        student = student_of(setting, flow, found.phases, recipe)
        return {**student, "suggested_k": found.suggested_k, "useful_k": found.useful_k}

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
        stop = own[-1]["k"]
        for row, after in pairwise(own):
            if (after["r2"] - row["r2"]) / (after["k"] - row["k"]) < WORTH:
                stop = row["k"]
                break
        same.append(stop == own[0]["useful_k"])
        said.append(
            f"width {width}: R2 {own[0]['r2']:.3f} with {own[0]['k']} to {own[-1]['r2']:.3f} with {own[-1]['k']}; a "
            f"block more adds below {WORTH} from k = {stop} on (useful k: {own[0]['useful_k']})"
        )
    text = "few blocks are enough, and the similarity tells how many"
    return Summary(rows, Claim(text, all(same) if same else None, "; ".join(said)))


STUDY = Study("fidelity and accuracy against the number of blocks, for two sizes of teacher", jobs, summarise)
