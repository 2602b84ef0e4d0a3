"""Do the found phases make better surrogates than other partitions? (Figure 3)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raptor.core.phases import Phases
from raptor.distillation.recipes import distillation_named
from raptor.phases.find import find_phases
from raptor.render.charts import Figure
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, teacher_job
from raptor.studies.registry import Claim, Study, Summary, study
from raptor.studies.setting import StudentResult, StudySetting

KS = (2, 3, 4)
FOUND = "partitions/found"


@dataclass(frozen=True)
class PartitionRow:
    """A student of one partition.

    Parameters
    ----------
    k, phases
        The partition.
    found
        Whether it is the best partition by similarity.
    seed
        The student's seed.
    r2, recovered
        Fidelity at the last layer, and the teacher's accuracy that is recovered.
    """

    k: int
    phases: Phases
    found: bool
    seed: int
    r2: float
    recovered: float


@study("partitions", "Each dot is a student of one partition; the found phases are in colour.", "Figure 3")
class Partitions(Study[PartitionRow]):
    """The found phases against other contiguous partitions."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return a teacher, its phases, and a student of each partition."""
        teacher = teacher_job(setting)

        def find(results: Results, out: Path) -> dict[int, Phases]:
            flow = setting.teacher(teacher.name)
            return {k: find_phases(flow, setting.for_phases(), k=k, progress=False).phases for k in _ks(setting)}

        jobs: list[Job[Any]] = [
            teacher,
            Job(FOUND, setting.cache_key, dict[int, Phases], find, (teacher.name,)),
        ]
        for k in _ks(setting):
            jobs += [_student(setting, teacher.name, k, None, seed) for seed in setting.size.seeds]
            partitions = other_partitions(setting.size.depth, k, setting.size.others)
            jobs += [_student(setting, teacher.name, k, phases, setting.size.seed) for phases in partitions]
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[PartitionRow]:
        """Return the last layer's R2 of every partition, and the rank of the found ones among them."""
        rows = [
            PartitionRow(one.phases.k, one.phases, "found" in name, one.seed, one.last_r2(), one.recovered.value)
            for name in done.results
            if name.startswith("partitions/") and name != FOUND
            for one in [done.results.of(name, StudentResult)]
        ]
        evidence, beaten = [], []
        for k in _ks(setting):
            own = [row for row in rows if row.k == k and row.found]
            best = {row.phases for row in own}
            other = [row for row in rows if row.k == k and not row.found and row.phases not in best]
            if own and other:
                text, share = _compare(k, own, other)
                evidence.append(text)
                beaten.append(share)
        held = None if not beaten else all(share > 0.5 for share in beaten)
        claim = "found phases make closer surrogates than most other partitions"
        return Summary(rows, Claim(claim, held, "; ".join(evidence)))

    def draw(self, rows: list[PartitionRow]) -> Figure:
        """Draw all partitions by k."""
        import altair as alt

        from raptor.studies.panels import R2, cells, points

        scale = alt.Scale(domain=[True, False], range=["#D55E00", "#999999"])
        table = cells(rows)
        chart = points(table, "k", "r2", "blocks k", R2, color=alt.Color("found:N", title="found", scale=scale))
        x = alt.X("k:O", title="blocks k", axis=alt.Axis(labelAngle=0))
        return Figure(chart.encode(x=x).properties(title="Found phases and other partitions"), table)


def _ks(setting: StudySetting) -> list[int]:
    return [k for k in KS if 2 * k <= setting.size.depth]


def other_partitions(depth: int, k: int, n: int) -> list[Phases]:
    """Return all partitions for k = 2, and n distinct random ones for more; the found one may be among them."""
    if k == 2:
        return [Phases((first, depth - first)) for first in range(1, depth)]
    drawn: dict[str, Phases] = {}
    seed = 0
    while len(drawn) < n:
        phases = Phases.random(depth, k, seed)
        drawn[str(phases)] = phases
        seed += 1
    return list(drawn.values())


def _student(setting: StudySetting, teacher: str, k: int, phases: Phases | None, seed: int) -> Job[StudentResult]:
    """Return the job of a student of a partition; without one, of the found phases."""
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, seed)

    def work(results: Results, out: Path) -> StudentResult:
        partition = phases or results.of(FOUND, dict)[k]
        return distill_student(setting, setting.teacher(teacher), partition, recipe)

    label = f"found-k{k}-s{seed}" if phases is None else str(phases)
    cache_key = student_cache_key(setting, recipe, k=k)
    return Job(f"partitions/{label}", cache_key, StudentResult, work, (teacher, FOUND), student_cost(setting))


def _compare(k: int, own: list[PartitionRow], other: list[PartitionRow]) -> tuple[str, float]:
    """Return the numbers of the found partition against the others, and the share of the others that it beats."""
    r2, recovered = _column(own, "r2"), _column(own, "recovered")
    other_r2, other_recovered = _column(other, "r2"), _column(other, "recovered")
    worse = int((other_r2 < r2.mean()).sum())
    deviation = other_recovered.std(ddof=1) if len(other) > 1 else 0.0
    text = (
        f"k = {k}: R2 {r2.mean():.3f} (n = {len(own)} seeds, {r2.min():.3f} to {r2.max():.3f}), above {worse} of "
        f"{len(other)} others (best {other_r2.max():.3f}, median {np.median(other_r2):.3f}), accuracy recovered "
        f"{recovered.mean():.3f} against {other_recovered.mean():.3f} with a standard deviation of {deviation:.3f}"
    )
    return text, worse / len(other)


def _column(rows: list[PartitionRow], name: str) -> NDArray[np.float64]:
    return np.array([getattr(row, name) for row in rows], dtype=float)
