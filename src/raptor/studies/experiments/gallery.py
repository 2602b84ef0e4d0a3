"""Several teachers side by side (Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raptor.core.phases import Phases
from raptor.render.charts import Figure
from raptor.studies.conditions import look_job, teacher_jobs
from raptor.studies.jobs import Done, Job
from raptor.studies.phase_summary import PhaseSummary
from raptor.studies.registry import Claim, Study, Summary, study
from raptor.studies.setting import StudySetting, TeacherResult
from raptor.studies.teachers import RANDOM, STANDARD, SUBSET, TIED, UNTRAINED, dropped, teacher_name, unique


@dataclass(frozen=True)
class TeacherRow:
    """A teacher and its phases.

    Parameters
    ----------
    model, top1
        The condition of the teacher, and its accuracy.
    phases, verdict, suggested_k, within, between, similarity, n
        Its phases; see `PhaseSummary`.
    """

    model: str
    top1: float
    phases: Phases
    verdict: str
    suggested_k: int
    within: float
    between: float
    similarity: list[list[float]]
    n: int


@study("gallery", "Layer similarity of several models in the same colours, each with its own phases.", "Figure 1", True)
class Gallery(Study[TeacherRow]):
    """Layer similarity of teachers of the first seed, of an untrained and of a random network."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return the teachers and their phases."""
        seed = setting.size.seed
        return unique(
            [
                job
                for name in _conditions(setting)
                for job in (*teacher_jobs(setting, name, seed), look_job(setting, name, seed))
            ]
        )

    def summarise(self, setting: StudySetting, done: Done) -> Summary[TeacherRow]:
        """Return a row for each teacher, and how many of the trained ones have phases."""
        rows = []
        for name in _conditions(setting):
            found = done.results.find(look_job(setting, name, setting.size.seed).name, PhaseSummary)
            if found is not None:
                teacher = done.results.of(teacher_name(name, setting.size.seed), TeacherResult)
                rows.append(
                    TeacherRow(
                        name, teacher.top1.value, found.phases, found.verdict, found.suggested_k, found.within,
                        found.between, found.similarity, found.n,
                    )
                )  # fmt: skip
        known = [row for row in rows if row.model not in (TIED, UNTRAINED, RANDOM)]
        blocks = sum(row.verdict == "blocks" for row in known)
        evidence = f"{blocks} of {len(known)} trained teachers are blocks; " + ", ".join(
            f"{row.model}: {row.verdict} ({row.phases})" for row in rows
        )
        # The teacher that has phases by construction must be recognised, or the criterion says nothing of the others.
        control = next((row.verdict for row in rows if row.model == TIED), "")
        held = None if not known or control != "blocks" else blocks == len(known)
        if control not in ("", "blocks"):
            evidence += "; the teacher with phases by construction is not recognised either, so nothing follows"
        return Summary(rows, Claim("the depth of trained ViTs has phases", held, evidence))

    def draw(self, rows: list[TeacherRow]) -> Figure:
        """Draw the matrices."""
        from raptor.studies.panels import cells, matrices

        chart = matrices(rows, [row.model for row in rows]).properties(title="Similarity between layers")
        return Figure(chart, cells(rows))


def _conditions(setting: StudySetting) -> list[str]:
    return [STANDARD, dropped(setting.size.drop_path).name, TIED, SUBSET, UNTRAINED, RANDOM]
