"""Does recurrence emerge with training? (Figure 11)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raptor.render.charts import Figure
from raptor.studies.analysis import Hypothesis, mean_interval, written
from raptor.studies.conditions import (
    ConditionRow,
    column,
    condition_jobs,
    condition_rows,
    draw_conditions,
    judge_excess,
)
from raptor.studies.jobs import Done, Job
from raptor.studies.registry import Study, Summary, study
from raptor.studies.setting import StudySetting
from raptor.studies.teachers import STANDARD, UNTRAINED, unique

HYPOTHESIS = Hypothesis(
    "training makes depth more recurrent",
    0.05,
    "excess of skill of trained teachers less that of untrained ones",
)
ENDS = (UNTRAINED, STANDARD)


@study("emergence", "Each dot is a teacher, from random weights to the end of its training.", "Figure 11", wide=True)
class Emergence(Study[ConditionRow]):
    """Untrained and trained teachers of all seeds, and one teacher along its training."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return both ends with all seeds, and the checkpoints between with the first."""
        return unique(
            [*self.primary_jobs(setting), *condition_jobs(setting, _between(setting), setting.size.seeds[:1])]
        )

    def primary_jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return both ends with all seeds."""
        return condition_jobs(setting, ENDS, setting.size.seeds)

    def summarise(self, setting: StudySetting, done: Done) -> Summary[ConditionRow]:
        """Return a row per teacher, and what training changes."""
        rows = condition_rows(done, ENDS, setting.size.seeds)
        between = condition_rows(done, _between(setting), setting.size.seeds[:1])
        rows = sorted([*rows, *between], key=lambda row: row.share)
        # The paper's own measures: similarity within phases, and the reconstruction of cls.
        evidence = "; ".join(
            f"{name}: cosine within phases {written(mean_interval(column(rows, 'within', name)))}, R2 of cls "
            f"{written(mean_interval(column(rows, 'r2_cls', name)))}"
            for name in ENDS
        )
        if between:
            along = ", ".join(f"{row.excess:.3f} after {row.share:.0%}" for row in between)
            evidence += f"; excess along the training of one teacher: {along}"
        return Summary(rows, judge_excess(HYPOTHESIS, rows, STANDARD, UNTRAINED, evidence))

    def draw(self, rows: list[ConditionRow]) -> Figure:
        """Draw the matrices and the outcome from random weights to the end."""
        return draw_conditions(rows, "During training")


def _between(setting: StudySetting) -> list[str]:
    return [f"at{share:g}" for share in setting.size.checkpoints if 0 < share < 1]
