"""Several teachers side by side (Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

from raptor.studies.jobs import Done, Job
from raptor.studies.models import Setting, teacher_job
from raptor.studies.stochastic_depth import look_job
from raptor.studies.study import Claim, Study, Summary


def jobs(setting: Setting) -> Sequence[Job]:
    """Return teachers of all rates of stochastic depth, and a look at each."""
    table: list[Job] = []
    for rate in setting.size.drop_paths:
        teacher = teacher_job(setting, rate)
        table += [teacher, look_job(setting, teacher.name, rate)]
    return table


def summarise(setting: Setting, done: Done) -> Summary:
    """Return a row for each teacher, and how many have phases."""
    rows = [
        {"drop_path": rate, "top1": done.results[f"teachers/p{rate:g}-s0"]["top1"],
         **{key: look[key] for key in ("phases", "verdict", "suggested_k", "within", "between", "similarity", "n")}}
        for rate in setting.size.drop_paths
        if (look := done.results.get(f"stochastic-depth/look-p{rate:g}")) is not None
    ]  # fmt: skip
    blocks = sum(row["verdict"] == "blocks" for row in rows)
    evidence = f"{blocks} of {len(rows)} teachers: " + ", ".join(
        f"drop path {row['drop_path']:g}: {row['verdict']} ({row['phases']})" for row in rows
    )
    return Summary(rows, Claim("the depth of ViTs has phases", None if not rows else blocks == len(rows), evidence))


STUDY = Study("similarity between layers of all teachers", jobs, summarise)
