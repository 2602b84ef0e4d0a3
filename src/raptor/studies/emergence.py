"""Do phases come with training? (Figure 11)"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raptor.phases import Phases
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.look import look_at
from raptor.studies.models import Setting, student_about, student_cost, student_of, teacher_job
from raptor.studies.study import Claim, Study, Summary
from raptor.training.recipes import distillation_named

K = 3


def jobs(setting: Setting) -> Sequence[Job]:
    """Return a teacher, and a look at it and a student of it at each checkpoint."""
    teacher = teacher_job(setting)
    return [teacher, *(_at(setting, teacher.name, share) for share in setting.size.checkpoints)]


def _at(setting: Setting, teacher: str, share: float) -> Job:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, setting.size.seed)

    def work(results: Results, out: Path) -> dict[str, Any]:
        flow = setting.teacher(teacher, share)
        look = look_at(setting, flow, K)
        return {**look, "student": student_of(setting, flow, Phases.parse(look["phases"]), recipe)}

    return Job(
        f"emergence/at-{share:g}", student_about(setting, recipe, share=share), work, (teacher,), student_cost(setting)
    )


def summarise(setting: Setting, done: Done) -> Summary:
    """Return a row for each checkpoint, and what training has changed."""
    rows = []
    for share in setting.size.checkpoints:
        if (found := done.results.get(f"emergence/at-{share:g}")) is not None:
            student = found["student"]
            rows.append(
                {"share": share, "top1": student["teacher"], "within": found["within"], "between": found["between"],
                 "verdict": found["verdict"], "suggested_k": found["suggested_k"], "phases": found["phases"],
                 "similarity": found["similarity"],
                 "r2": student["r2"]["all"][-1], "r2_cls": student["r2"]["cls"][-1],
                 "r2_cls_ci": [bound[-1] for bound in student["r2_ci"]["cls"]],
                 "cosine_cls": student["cosine"]["cls"][-1]}
            )  # fmt: skip
    text = "training makes layers of a phase more alike and cls better reconstructed"
    if len(rows) < 2:
        return Summary(rows, Claim(text, None, "too few checkpoints"))
    first, last = rows[0], rows[-1]
    evidence = "; ".join(
        f"{name}: cosine {row['within']:.3f} within phases and {row['between']:.3f} between, R2 of cls "
        f"{row['r2_cls']:.3f} [{row['r2_cls_ci'][0]:.3f}, {row['r2_cls_ci'][1]:.3f}], structure: {row['verdict']}"
        for name, row in (("untrained", first), ("trained", last))
    )
    # Closer means that the intervals over images do not meet.
    held = last["within"] > first["within"] and last["r2_cls_ci"][0] > first["r2_cls_ci"][1]
    return Summary(rows, Claim(text, held, evidence))


STUDY = Study("one teacher along its training, from random weights to the end", jobs, summarise)
