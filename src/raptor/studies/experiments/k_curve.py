"""How many blocks are useful? (Figure 5, with the k that the similarity suggests)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from raptor.core.phases import Phases
from raptor.core.serialize import Key
from raptor.distillation.recipes import distillation_named
from raptor.phases.find import find_phases
from raptor.phases.options import PhasesOptions
from raptor.render.charts import Figure
from raptor.studies.jobs import Done, Job, Results
from raptor.studies.models import distill_student, student_cache_key, student_cost, teacher_job
from raptor.studies.registry import Claim, Study, Summary, study
from raptor.studies.setting import StudentResult, StudySetting

USEFUL_GAIN = 0.01  # gain of R2 per block below which more blocks do not pay
CLAIM = "few blocks are enough, and the similarity tells how many"


@dataclass(frozen=True)
class BlocksResult:
    """A student with k blocks, and the k that the teacher's similarity suggests."""

    student: Annotated[StudentResult, Key(inline=True)]
    suggested_k: int
    useful_k: int


@dataclass(frozen=True)
class BlocksRow:
    """A student with k blocks.

    Parameters
    ----------
    width, k, phases
        The teacher's width, and the student's number of blocks and partition.
    r2, recovered, parameters
        Fidelity at the last layer, the teacher's accuracy that is recovered, and parameters of the blocks.
    suggested_k, useful_k
        The k that the teacher's similarity suggests, and the k from which more blocks do not describe it better.
    """

    width: int
    k: int
    phases: Phases
    r2: float
    recovered: float
    parameters: int
    suggested_k: int
    useful_k: int


@study("k-curve", "Fidelity and recovered accuracy against the number of blocks.", "Figure 5")
class KCurve(Study[BlocksRow]):
    """Fidelity and accuracy against the number of blocks, for teachers of several widths."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return teachers of several widths, and students of each by number of blocks."""
        jobs: list[Job[Any]] = []
        for width in setting.size.widths:
            teacher = teacher_job(setting, width=width)
            ks = [k for k in setting.size.ks if k <= setting.size.depth]
            jobs += [teacher, *(_student(setting, teacher.name, width, k) for k in ks)]
        return jobs

    def summarise(self, setting: StudySetting, done: Done) -> Summary[BlocksRow]:
        """Return fidelity by number of blocks, and where more of them stop paying."""
        rows = [
            _row(width, k, found)
            for width in setting.size.widths
            for k in setting.size.ks
            if (found := done.results.find(_name(width, k), BlocksResult)) is not None
        ]
        evidence, same = [], []
        for width in setting.size.widths:
            own = sorted((row for row in rows if row.width == width), key=lambda row: row.k)
            if len(own) < 2:
                continue
            gains = enumerate(pairwise(own))
            stop = next((n for n, (row, after) in gains if _gain(row, after) < USEFUL_GAIN), len(own) - 1)
            # Not every number of blocks is tried: the useful k agrees if no k that was tried lies between.
            below = own[stop - 1].k if stop else 0
            above = own[stop + 1].k if stop + 1 < len(own) else setting.size.depth + 1
            same.append(below < own[0].useful_k < above)
            first, last = own[0], own[-1]
            evidence.append(
                f"width {width}: R2 {first.r2:.3f} with {first.k} to {last.r2:.3f} with {last.k}; a block more adds "
                f"below {USEFUL_GAIN} from k = {own[stop].k} on (useful k: {first.useful_k}, suggested: "
                f"{first.suggested_k})"
            )
        return Summary(rows, Claim(CLAIM, all(same) if same else None, "; ".join(evidence)))

    def draw(self, rows: list[BlocksRow]) -> Figure:
        """Draw fidelity and accuracy by number of blocks."""
        import altair as alt

        from raptor.render.charts import PALETTE
        from raptor.studies.panels import R2, cells, points

        widths, table = sorted({row.width for row in rows}), cells(rows)
        colour = alt.Color("width:N", title="width", scale=alt.Scale(domain=widths, range=list(PALETTE[: len(widths)])))
        panels = [
            points(table, "k", name, "blocks k", title, color=colour).mark_line(point=True)
            for name, title in (("r2", R2), ("recovered", "accuracy recovered"))
        ]
        return Figure(alt.hconcat(*panels).properties(title="How many blocks"), table)


def _name(width: int, k: int) -> str:
    return f"k-curve/w{width}-k{k}"


def _student(setting: StudySetting, teacher: str, width: int, k: int) -> Job[BlocksResult]:
    recipe = distillation_named("default", setting.size.student_steps, setting.size.student_batch, setting.size.seed)

    def work(results: Results, out: Path) -> BlocksResult:
        flow = setting.teacher(teacher)
        # A block may be a single layer where many blocks are asked for, but that is no evidence of phases.
        partition = find_phases(flow, setting.for_phases(), k=k, options=PhasesOptions(min_length=1), progress=False)
        best = find_phases(flow, setting.for_phases(), progress=False)
        student = distill_student(setting, flow, partition.phases, recipe)
        return BlocksResult(student, best.suggested_k, best.useful_k)

    cache_key = student_cache_key(setting, recipe, width=width, k=k)
    return Job(_name(width, k), cache_key, BlocksResult, work, (teacher,), student_cost(setting, width))


def _row(width: int, k: int, found: BlocksResult) -> BlocksRow:
    student = found.student
    return BlocksRow(
        width, k, student.phases, student.last_r2(), student.recovered.value, student.parameters, found.suggested_k,
        found.useful_k,
    )  # fmt: skip


def _gain(row: BlocksRow, after: BlocksRow) -> float:
    """Return the gain of R2 per additional block."""
    return (after.r2 - row.r2) / (after.k - row.k)
