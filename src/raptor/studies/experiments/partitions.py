"""Do the found phases make better surrogates than other assignments of layers to blocks? (Figure 3)"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raptor.core.phases import Phases, shuffled_map
from raptor.core.placements import placements
from raptor.phases.find import find_phases
from raptor.phases.options import FIT, PhasesOptions
from raptor.render.charts import Figure
from raptor.studies.analysis import Hypothesis, mean_interval, mixed_difference, written
from raptor.studies.conditions import student_name, teacher_jobs
from raptor.studies.jobs import Cost, Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, student_recipe
from raptor.studies.phase_summary import K
from raptor.studies.registry import Study, Summary, mean, study
from raptor.studies.setting import StudentResult, StudySetting
from raptor.studies.teachers import STANDARD, teacher_name

SIMILARITY, EVEN, RANDOM, SHUFFLED = "similarity", "even", "random", "shuffled"
HYPOTHESIS = Hypothesis(
    "phases found by similarity make closer surrogates than random contiguous phases",
    0.02,
    "skill of the cut by similarity less the mean over random cuts of the same minimum length",
)


@dataclass(frozen=True)
class PartitionRow:
    """A student of one assignment of layers to blocks.

    Parameters
    ----------
    seed
        Seed of the teacher, of the student and of random assignments.
    by
        `similarity`, `fit`, `even`, `random` (contiguous) or `shuffled` (not contiguous).
    phases
        The assignment.
    skill, r2, recovered
        Fidelity at the last layer, and the teacher's accuracy that is recovered.
    """

    seed: int
    by: str
    phases: Phases
    skill: float
    r2: float
    recovered: float


@study("partitions", "Each dot is a student of one assignment of layers to three blocks.", "Figure 3", wide=True)
class Partitions(Study[PartitionRow]):
    """Cuts by similarity and by fit, the even split, random cuts, and shuffled assignments, for every teacher."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return for each seed a teacher, all assignments, and a student of each."""
        jobs: list[Job[Any]] = []
        for seed in setting.size.seeds:
            jobs += [*teacher_jobs(setting, STANDARD, seed), _cuts(setting, seed)]
            jobs += [_student(setting, seed, label) for label in _labels(setting)]
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[PartitionRow]:
        """Return a row per student, and how far found cuts are ahead of random ones, teacher by teacher."""
        rows = []
        for seed in setting.size.seeds:
            for label in _labels(setting):
                found = done.results.find(_name(seed, label), StudentResult)
                if found is not None:
                    by = label.rstrip("0123456789")
                    values = found.last("skill"), found.last("r2"), found.recovered.value
                    rows.append(PartitionRow(seed, by, found.phases, *values))
        parts = []
        for by in (SIMILARITY, FIT, EVEN, SHUFFLED):
            ahead = {name: mean_interval(_ahead(rows, by, name)) for name in ("skill", "r2", "recovered")}
            parts.append(f"{by} less random: " + ", ".join(f"{name} {written(one)}" for name, one in ahead.items()))
        mixed = mixed_difference(
            *([(row.seed, row.skill) for row in rows if row.by == by] for by in (SIMILARITY, RANDOM))
        )
        effect = mean_interval(_ahead(rows, SIMILARITY, "skill"))
        return Summary(rows, HYPOTHESIS.judge(effect, "; ".join(parts), mixed))

    def draw(self, rows: list[PartitionRow]) -> Figure:
        """Draw a dot per student by kind of assignment."""
        from raptor.studies.panels import R2, cells, strips

        table = cells(rows)
        columns = {"skill": "skill", "r2": R2, "recovered": "accuracy recovered"}
        return Figure(strips(table, "by", columns).properties(title="Assignments of layers to blocks"), table)


def random_cuts(found: Phases, n: int, seed: int, min_length: int = PhasesOptions.min_length) -> list[Phases]:
    """Draw n different contiguous partitions uniformly, with the minimum length of found ones; never the found one.

    Parameters
    ----------
    found
        The found partition, whose depth and k they have.
    n
        Number of partitions; fewer where there are not as many.
    seed
        Seed of the draw.
    min_length
        Minimum number of layers in a phase.
    """
    every = [Phases(lengths) for lengths in placements(found.depth, found.k, min_length) if lengths != found.lengths]
    return random.Random(seed).sample(every, min(n, len(every)))


def shuffled_maps(found: Phases, n: int, seed: int) -> list[Phases]:
    """Draw n different assignments that are not contiguous, with the block sizes of the found partition."""
    drawn: dict[Phases, None] = {}
    for number in range(100 * n):
        if len(drawn) < n:
            drawn[shuffled_map(found, 1000 * seed + number)] = None
    return list(drawn)


def _labels(setting: StudySetting) -> list[str]:
    numbered = [f"{RANDOM}{i}" for i in range(setting.size.others)] + [
        f"{SHUFFLED}{i}" for i in range(setting.size.shuffled)
    ]
    return [SIMILARITY, FIT, EVEN, *numbered]


def _cuts(setting: StudySetting, seed: int) -> Job[dict[str, Phases]]:
    """Return the job that finds and draws all assignments for a teacher."""
    size, teacher = setting.size, teacher_name(STANDARD, seed)

    def work(results: Results, out: Path) -> dict[str, Phases]:
        options = PhasesOptions(by=FIT)
        agreed = find_phases(setting.teacher(teacher), setting.for_phases(), K, options, progress=False).agreement
        found = agreed.similarity
        assert found is not None
        assert agreed.fit is not None
        drawn = {
            **{f"{RANDOM}{i}": one for i, one in enumerate(random_cuts(found, size.others, seed))},
            **{f"{SHUFFLED}{i}": one for i, one in enumerate(shuffled_maps(found, size.shuffled, seed))},
        }
        return {SIMILARITY: found, FIT: agreed.fit, EVEN: Phases.even(size.depth, K), **drawn}

    cache_key = {**setting.cache_key, "seed": seed, "others": size.others, "shuffled": size.shuffled}
    cost = Cost(measured_images=2 * size.eval_images)
    return Job(_name(seed, "cuts"), cache_key, dict[str, Phases], work, (teacher,), cost)


def _name(seed: int, label: str) -> str:
    return f"partitions/{label}-s{seed}"


def _student(setting: StudySetting, seed: int, label: str) -> Job[StudentResult]:
    recipe, teacher, cuts = student_recipe(setting, seed), teacher_name(STANDARD, seed), _name(seed, "cuts")

    def work(results: Results, out: Path) -> StudentResult:
        return distill_student(setting, setting.teacher(teacher), results.of(cuts, dict)[label], recipe)

    cache_key = student_cache_key(setting, recipe, by=label)
    trains = student_name(STANDARD, seed) if label == SIMILARITY else ""
    return Job(_name(seed, label), cache_key, StudentResult, work, (teacher, cuts), student_cost(setting, trains))


def _ahead(rows: list[PartitionRow], by: str, name: str) -> list[float]:
    """Return for each teacher the mean over its assignments of a kind, less that over its random cuts."""
    ahead = []
    for seed in sorted({row.seed for row in rows}):
        own, others = (
            mean(float(getattr(row, name)) for row in rows if row.seed == seed and row.by == kind)
            for kind in (by, RANDOM)
        )
        ahead.append(own - others)
    return ahead
