"""Does stochastic depth make depth more recurrent? (Figure 4)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from raptor.dynamics.ranking import exact_rank_correlation, linear_correlation
from raptor.phases import Phases
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.look import look_at
from raptor.studies.models import Setting, student_about, student_cost, student_of, teacher_job
from raptor.studies.study import Claim, Study, Summary, mean
from raptor.training.recipes import distillation_named

K = 3


def jobs(setting: Setting) -> Sequence[Job]:
    """Return, for each rate, a teacher, a look at it, and students of as many seeds as there are."""
    table: list[Job] = []
    for rate in setting.size.drop_paths:
        teacher = teacher_job(setting, rate)
        look = look_job(setting, teacher.name, rate)
        table += [teacher, look, *(_student(setting, teacher.name, look.name, rate, s) for s in setting.size.seeds)]
    return table


def look_job(setting: Setting, teacher: str, rate: float) -> Job:
    """Return the job that looks at a teacher."""

    def work(results: Results, out: Path) -> dict[str, Any]:
        return look_at(setting, setting.teacher(teacher), K)

    return Job(f"stochastic-depth/look-p{rate:g}", {**setting.about, "drop_path": rate}, work, (teacher,))


def _student(setting: Setting, teacher: str, look: str, rate: float, seed: int) -> Job:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, seed)

    def work(results: Results, out: Path) -> dict[str, Any]:
        return student_of(setting, setting.teacher(teacher), Phases.parse(results[look]["phases"]), recipe)

    about = student_about(setting, recipe, drop_path=rate)
    return Job(f"stochastic-depth/student-p{rate:g}-s{seed}", about, work, (teacher, look), student_cost(setting))


def summarise(setting: Setting, done: Done) -> Summary:
    """Return a row for each rate and seed, and whether fidelity rises with the rate."""
    rows = []
    for rate in setting.size.drop_paths:
        teacher, look = (
            done.results.get(name) for name in (teacher_job(setting, rate).name, f"stochastic-depth/look-p{rate:g}")
        )
        for seed in setting.size.seeds:
            student = done.results.get(f"stochastic-depth/student-p{rate:g}-s{seed}")
            if teacher is None or look is None or student is None:
                continue
            rows.append(
                {"drop_path": rate, "seed": seed, "top1": teacher["top1"], "student_top1": student["surrogate"],
                 "recovered": student["recovered"], "r2": student["r2"]["all"][-1], "r2_cls": student["r2"]["cls"][-1],
                 "r2_patch": student["r2"]["patch"][-1], "within": look["within"], "between": look["between"],
                 "verdict": look["verdict"], "phases": look["phases"], "similarity": look["similarity"],
                 "by_layer": {name: student[name] for name in ("r2", "pearson2")}}
            )  # fmt: skip
    return Summary(rows, Claim("stochastic depth makes surrogates closer", *_judged(rows)))


def _judged(rows: list[dict[str, Any]]) -> tuple[bool | None, str]:
    """Return whether fidelity rises with the rate, and what else goes with what.

    Students of one teacher are no independent evidence on its rate: they are averaged, and p is over all pairings of
    teachers with rates.
    """
    rates = sorted({row["drop_path"] for row in rows})
    columns = ("r2", "within", "top1", "recovered")
    means = {name: [mean(row[name] for row in rows if row["drop_path"] == rate) for rate in rates] for name in columns}
    pairs = {
        "R2 at the last layer with the rate": (rates, means["r2"]),
        "similarity within phases with the rate": (rates, means["within"]),
        "share of the accuracy recovered with the rate": (rates, means["recovered"]),
        "R2 with similarity within phases": (means["within"], means["r2"]),
        "R2 with the teacher's accuracy": (means["top1"], means["r2"]),
    }
    found = {name: exact_rank_correlation(*pair) for name, pair in pairs.items()}
    risen, p = found["R2 at the last layer with the rate"]
    evidence = (
        f"rank correlations over {len(rates)} teachers, each the mean of its {len(rows) // max(1, len(rates))} "
        "students, with one-sided p: "
        + "; ".join(f"{name} {rho:.2f} ({chance:.3f})" for name, (rho, chance) in found.items())
    )
    if all(later < earlier for earlier, later in pairwise(means["top1"])) and len(rates) > 1:
        evidence += ". Accuracy falls with the rate: what the rate does and what learning less does is not told apart"
    r, low, high = linear_correlation(means["within"], means["r2"])
    if not math.isnan(r):
        evidence += f". Linear correlation of R2 with similarity within phases {r:.2f} [{low:.2f}, {high:.2f}]"
    return (None if math.isnan(risen) else bool(risen > 0 and p < 0.05)), evidence


STUDY = Study("teachers of several rates of stochastic depth, and a Raptor of each", jobs, summarise)
