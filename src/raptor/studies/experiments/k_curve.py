"""How many blocks are enough? (Figure 5, with what similarity, function and fit suggest)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raptor.core.phases import Phases
from raptor.phases.find import find_phases
from raptor.phases.options import METHODS, PhasesOptions
from raptor.render.charts import Figure
from raptor.studies.analysis import Hypothesis, mean_interval, written
from raptor.studies.conditions import teacher_jobs
from raptor.studies.jobs import Cost, Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, student_recipe
from raptor.studies.registry import Study, Summary, study
from raptor.studies.setting import StudentResult, StudySetting
from raptor.studies.teachers import STANDARD, teacher_name

NEAR = 1.5  # blocks: nearer than that is at most one block away
HYPOTHESIS = Hypothesis(
    "similarity tells how many blocks are enough, to within one block",
    0.0,
    f"{NEAR} blocks less the distance of the elbow from the useful k by similarity",
)


@dataclass(frozen=True)
class BlocksRow:
    """A student with k blocks.

    Parameters
    ----------
    seed, k, phases
        Seed of the teacher and of the student, and its number of blocks and partition.
    skill, r2, recovered, parameters
        Fidelity at the last layer, the teacher's accuracy that is recovered, and parameters of the blocks.
    """

    seed: int
    k: int
    phases: Phases
    skill: float
    r2: float
    recovered: float
    parameters: int


@study("k-curve", "Fidelity and recovered accuracy against the number of blocks; a line per teacher.", "Figure 5")
class KCurve(Study[BlocksRow]):
    """Fidelity and accuracy against the number of blocks."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return for each seed a teacher, the k that each method suggests, and students by number of blocks."""
        jobs: list[Job[Any]] = []
        for seed in setting.size.seeds:
            jobs += [*teacher_jobs(setting, STANDARD, seed), _suggested(setting, seed)]
            jobs += [_student(setting, seed, k) for k in _ks(setting)]
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[BlocksRow]:
        """Return fidelity by number of blocks, and where the elbow is beside what each method suggests."""
        rows = [
            _row(seed, k, found)
            for seed in setting.size.seeds
            for k in _ks(setting)
            if (found := done.results.find(_name(seed, f"k{k}"), StudentResult)) is not None
        ]
        elbows, suggested = {}, {}
        for seed in setting.size.seeds:
            own = {row.k: row.skill for row in rows if row.seed == seed}
            by_method = done.results.find(_name(seed, "suggested"), dict)
            if len(own) > 2 and by_method is not None:
                elbows[seed], suggested[seed] = elbow(own), by_method
        parts = [f"elbow of the skill at k = {written(mean_interval(list(elbows.values())), 1)}"]
        for method in METHODS:
            parts.append(
                f"useful k by {method} {written(mean_interval([one[method] for one in suggested.values()]), 1)}"
            )
        distance = mean_interval([NEAR - abs(elbows[seed] - suggested[seed]["similarity"]) for seed in elbows])
        return Summary(rows, HYPOTHESIS.judge(distance, "; ".join(parts)))

    def draw(self, rows: list[BlocksRow]) -> Figure:
        """Draw fidelity and accuracy by number of blocks."""
        import altair as alt

        from raptor.render.charts import PALETTE
        from raptor.studies.panels import R2, cells, points

        seeds, table = sorted({row.seed for row in rows}), cells(rows)
        colour = alt.Color("seed:N", title="seed", scale=alt.Scale(domain=seeds, range=list(PALETTE[: len(seeds)])))
        panels = [
            points(table, "k", name, "blocks k", title, color=colour).mark_line(point=True)
            for name, title in (("skill", "skill"), ("r2", R2), ("recovered", "accuracy recovered"))
        ]
        return Figure(alt.hconcat(*panels).properties(title="How many blocks"), table)


def elbow(by_k: dict[int, float]) -> int:
    """Return the k at which a curve is farthest above the straight line between its ends; the smallest of equals.

    Parameters
    ----------
    by_k
        Values by number of blocks, at least two.
    """
    first, last = min(by_k), max(by_k)
    slope = (by_k[last] - by_k[first]) / (last - first)
    return max(sorted(by_k), key=lambda k: by_k[k] - by_k[first] - slope * (k - first))


def _ks(setting: StudySetting) -> list[int]:
    return [k for k in setting.size.ks if k <= setting.size.depth]


def _name(seed: int, label: str) -> str:
    return f"k-curve/{label}-s{seed}"


def _suggested(setting: StudySetting, seed: int) -> Job[dict[str, int]]:
    """Return the job that finds the useful k by similarity, by function and by fit."""
    teacher = teacher_name(STANDARD, seed)

    def work(results: Results, out: Path) -> dict[str, int]:
        flow, images = setting.teacher(teacher), setting.for_phases()
        return {
            method: find_phases(flow, images, options=PhasesOptions(by=method), progress=False).useful_k
            for method in METHODS
        }

    cache_key = {**setting.cache_key, "seed": seed}
    cost = Cost(measured_images=4 * setting.size.eval_images)
    return Job(_name(seed, "suggested"), cache_key, dict[str, int], work, (teacher,), cost)


def _student(setting: StudySetting, seed: int, k: int) -> Job[StudentResult]:
    recipe, teacher = student_recipe(setting, seed), teacher_name(STANDARD, seed)

    def work(results: Results, out: Path) -> StudentResult:
        flow = setting.teacher(teacher)
        # A block may be a single layer where many blocks are asked for.
        found = find_phases(flow, setting.for_phases(), k=k, options=PhasesOptions(min_length=1), progress=False)
        return distill_student(setting, flow, found.phases, recipe)

    cache_key = student_cache_key(setting, recipe, k=k)
    return Job(_name(seed, f"k{k}"), cache_key, StudentResult, work, (teacher,), student_cost(setting))


def _row(seed: int, k: int, one: StudentResult) -> BlocksRow:
    values = one.last("skill"), one.last("r2"), one.recovered.value
    return BlocksRow(seed, k, one.phases, *values, one.parameters)
