"""Does overfitting make depth less recurrent? (Figure 13 of the later version)"""

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
from raptor.studies.teachers import STANDARD, SUBSET

HYPOTHESIS = Hypothesis(
    "overfitting makes depth less recurrent",
    0.05,
    "excess of skill of standard teachers less that of teachers that overfit a small subset",
)
CONDITIONS = (STANDARD, SUBSET)


@study("overfitting", "Each dot is a teacher, trained on all images or on a small subset.", "Figure 13", wide=True)
class Overfitting(Study[ConditionRow]):
    """Teachers trained on a small subset for as many steps, beside standard ones."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return both conditions with all seeds."""
        return condition_jobs(setting, CONDITIONS, setting.size.seeds)

    def summarise(self, setting: StudySetting, done: Done) -> Summary[ConditionRow]:
        """Return a row per teacher, and what overfitting changes."""
        rows = condition_rows(done, CONDITIONS, setting.size.seeds)
        evidence = "; ".join(
            f"{name}: "
            + ", ".join(f"{measure} {written(mean_interval(column(rows, measure, name)))}" for measure in
                        ("top1", "within", "r2", "recovered"))
            for name in CONDITIONS
        )  # fmt: skip
        return Summary(rows, judge_excess(HYPOTHESIS, rows, STANDARD, SUBSET, evidence))

    def draw(self, rows: list[ConditionRow]) -> Figure:
        """Draw the matrices and the outcome by condition."""
        return draw_conditions(rows, "Overfitting")
