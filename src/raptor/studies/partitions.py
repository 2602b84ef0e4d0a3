"""Do found phases make better surrogates than others? (Figure 3)"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raptor.phases import Phases
from raptor.selection import find_phases
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import Setting, student_about, student_cost, student_of, teacher_job
from raptor.studies.study import Claim, Study, Summary
from raptor.training.recipes import distillation_named

KS = (2, 3, 4)
FOUND = "partitions/found"


def jobs(setting: Setting) -> Sequence[Job]:
    """Return a teacher, its phases, and a student of each partition."""
    teacher = teacher_job(setting)

    def find(results: Results, out: Path) -> dict[str, Any]:
        flow = setting.teacher(teacher.name)
        found = {k: find_phases(flow, setting.held_out(), k=k) for k in _ks(setting)}
        return {str(k): str(one.phases) for k, one in found.items()}

    table = [teacher, Job(FOUND, setting.about, find, (teacher.name,))]
    for k in _ks(setting):
        table += [_student(setting, teacher.name, k, None, seed) for seed in setting.size.seeds]
        cuts = others(setting.size.depth, k, setting)
        table += [_student(setting, teacher.name, k, phases, setting.size.seed) for phases in cuts]
    return table


def _ks(setting: Setting) -> list[int]:
    return [k for k in KS if 2 * k <= setting.size.depth]


def others(depth: int, k: int, setting: Setting) -> list[Phases]:
    """Return all partitions for k = 2, and distinct random ones for more; the found one may be among them."""
    if k == 2:
        return [Phases((first, depth - first)) for first in range(1, depth)]
    drawn: dict[str, Phases] = {}
    seed = 0
    while len(drawn) < setting.size.others:
        phases = Phases.random(depth, k, seed)
        drawn[str(phases)] = phases
        seed += 1
    return list(drawn.values())


def _student(setting: Setting, teacher: str, k: int, phases: Phases | None, seed: int) -> Job:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, seed)

    def work(results: Results, out: Path) -> dict[str, Any]:
        cut = phases or Phases.parse(results[FOUND][str(k)])
        return student_of(setting, setting.teacher(teacher), cut, recipe)

    label = f"found-k{k}-s{seed}" if phases is None else str(phases)
    return Job(
        f"partitions/{label}", student_about(setting, recipe, k=k), work, (teacher, FOUND), student_cost(setting)
    )


def summarise(setting: Setting, done: Done) -> Summary:
    """Return the last layer's R2 of every partition, and where the found ones stand among them."""
    rows = [
        {"k": len(result["phases"].split("-")), "phases": result["phases"], "found": "found" in name,
         "seed": result["seed"], "r2": result["r2"]["all"][-1], "recovered": result["recovered"]}
        for name, result in done.results.items()
        if name.startswith("partitions/") and name != FOUND
    ]  # fmt: skip
    said, beaten = [], []
    for k in _ks(setting):
        own = [row for row in rows if row["k"] == k and row["found"]]
        best = {row["phases"] for row in own}
        other = [row for row in rows if row["k"] == k and not row["found"] and row["phases"] not in best]
        if own and other:
            r2, recovered = _column(own, "r2"), _column(own, "recovered")
            other_r2, other_recovered = _column(other, "r2"), _column(other, "recovered")
            worse = int((other_r2 < r2.mean()).sum())
            beaten.append(worse / len(other))
            spread = other_recovered.std(ddof=1) if len(other) > 1 else 0.0
            said.append(
                f"k = {k}: R2 {r2.mean():.3f} (n = {len(own)} seeds, {r2.min():.3f} to {r2.max():.3f}), above {worse} "
                f"of {len(other)} others (best {other_r2.max():.3f}, median {np.median(other_r2):.3f}), accuracy "
                f"recovered {recovered.mean():.3f} against {other_recovered.mean():.3f} with a standard deviation of "
                f"{spread:.3f}"
            )
    held = None if not beaten else all(share > 0.5 for share in beaten)
    return Summary(rows, Claim("found phases make closer surrogates than most other cuts", held, "; ".join(said)))


def _column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows], dtype=float)  # a share of nothing is not a number


STUDY = Study("found phases against other contiguous cuts", jobs, summarise)
