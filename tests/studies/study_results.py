"""Settings and results of studies that are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.data.options import LoadOptions
from raptor.data.scenes import draw as scenes
from raptor.studies.jobs import Done, Results
from raptor.studies.phase_summary import PhaseSummary
from raptor.studies.setting import StudentResult, StudySetting, TeacherResult
from raptor.studies.size import SIZES


def setting(root=None, **size):
    used = Preprocessing((32, 32), None, mean=scenes.MEAN, std=scenes.STD)
    where = Path() if root is None else root
    return StudySetting("scenes", used, LoadOptions(), replace(SIZES["smoke"], **size), where, where / "states")


def done(results):
    return Done(Results(results), {}, {})


def estimate(value, width=0.0):
    return Estimate(value, value - width, value + width)


def student(phases, skill, seed=0, recovered=None, top1=0.4):
    layers = {
        name: LayerEstimates(*({group: [value] for group in ("all", "cls", "patch")} for _ in range(3)))
        for name, value in (("skill", skill), ("r2", skill + 0.01))
    }
    return StudentResult(
        phases=Phases.parse(phases), n=24, parameters=10, skill=layers["skill"], r2=layers["r2"],
        pearson2=layers["r2"], cosine=layers["r2"], teacher=estimate(0.5), surrogate=estimate(top1),
        recovered=estimate(skill if recovered is None else recovered), train_seconds=1.0, seed=seed,
    )  # fmt: skip


def look(verdict="blocks", within=0.9, between=0.5, phases="3-2-2"):
    return PhaseSummary(Phases.parse(phases), verdict, 2, [[1.0]], within, between, 24)


def teacher(condition, top1=0.5, seed=0, drop_path=0.0, share=1.0):
    return TeacherResult(condition, estimate(top1), 24, 1.0, drop_path, seed, share, 10)


def condition(name, seed, skill, null, **more):
    """Return the results of the four jobs of a condition."""
    return {
        f"teachers/{name}-s{seed}": teacher(name, seed=seed, **more),
        f"conditions/look-{name}-s{seed}": look(),
        f"conditions/student-{name}-s{seed}": student("3-2-2", skill, seed),
        f"conditions/null-{name}-s{seed}": student("3-2-2", null, seed),
    }
