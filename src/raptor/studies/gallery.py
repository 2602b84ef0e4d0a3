"""Several teachers side by side (Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raptor.studies.jobs import Done, Job, Results
from raptor.studies.look import look_at
from raptor.studies.models import Setting, teacher_job
from raptor.studies.stochastic_depth import look_job
from raptor.studies.study import Claim, Study, Summary

UNTRAINED = "untrained"
SHOWN = ("phases", "verdict", "suggested_k", "within", "between", "similarity", "n")


def _teachers(setting: Setting) -> dict[str, tuple[Job, Job]]:
    """Return, by what each is, the job that trains a teacher and the job that looks at it."""
    size, found = setting.size, {}
    for rate in size.drop_paths:
        teacher = teacher_job(setting, rate)
        found[f"drop path {rate:g}"] = teacher, look_job(setting, teacher.name, rate)
    for width in size.widths:
        if width != size.width:
            teacher = teacher_job(setting, width=width)
            found[f"width {width}"] = teacher, _look(setting, teacher.name, f"w{width}", 1.0)
    if 0.0 in size.checkpoints:
        teacher = teacher_job(setting)
        found[UNTRAINED] = teacher, _look(setting, teacher.name, UNTRAINED, 0.0)
    return found


def _look(setting: Setting, teacher: str, label: str, share: float) -> Job:
    def work(results: Results, out: Path) -> dict[str, Any]:
        return look_at(setting, setting.teacher(teacher, share))

    return Job(f"gallery/{label}", {**setting.about, "share": share}, work, (teacher,))


def jobs(setting: Setting) -> Sequence[Job]:
    """Return teachers of all rates of stochastic depth and of all widths, and a look at each."""
    table = {job.name: job for pair in _teachers(setting).values() for job in pair}
    return list(table.values())


def summarise(setting: Setting, done: Done) -> Summary:
    """Return a row for each teacher, and how many of those that are trained have phases."""
    rows = [
        {"model": label, "top1": None if label == UNTRAINED else done.results[teacher.name]["top1"],
         **{key: found[key] for key in SHOWN}}
        for label, (teacher, look) in _teachers(setting).items()
        if (found := done.results.get(look.name)) is not None
    ]  # fmt: skip
    trained = [row for row in rows if row["model"] != UNTRAINED]
    blocks = sum(row["verdict"] == "blocks" for row in trained)
    evidence = f"{blocks} of {len(trained)} trained teachers are blocks; " + ", ".join(
        f"{row['model']}: {row['verdict']} ({row['phases']})" for row in rows
    )
    return Summary(
        rows, Claim("the depth of trained ViTs has phases", None if not trained else blocks == len(trained), evidence)
    )


STUDY = Study("similarity between layers of all teachers", jobs, summarise)
