"""Does the outcome tell networks that are recurrent by construction from random ones? (controls of all studies)"""

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
from raptor.studies.teachers import RANDOM, STANDARD, TIED, UNTRAINED

HYPOTHESIS = Hypothesis(
    "tied blocks reproduce networks that are tied by construction better than random networks",
    0.05,
    "excess of skill of tied teachers less that of random networks",
)
CONDITIONS = (TIED, STANDARD, UNTRAINED, RANDOM)
# A single network is called recurrent if its student leaves at most this share of the error of the random network's.
# At first the rule was an excess of at least 0.05, which is nearly the most that there can be where the student of a
# random network has a skill of 0.94. docs/studies.md says when it was changed.
FOUND = 0.5


@study("controls", "Each dot is a network; the excess is its outcome.", None, wide=True)
class Controls(Study[ConditionRow]):
    """Teachers that are tied by construction, standard, untrained and random."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return all conditions with all seeds."""
        return condition_jobs(setting, CONDITIONS, setting.size.seeds)

    def summarise(self, setting: StudySetting, done: Done) -> Summary[ConditionRow]:
        """Return a row per network, and whether the excess tells the positive from the negative control."""
        rows = condition_rows(done, CONDITIONS, setting.size.seeds)
        excess = {name: column(rows, "excess", name) for name in CONDITIONS}
        ratio = {name: column(rows, "error_ratio", name) for name in CONDITIONS}
        found = {name: sum(value <= FOUND for value in values) for name, values in ratio.items()}
        evidence = "; ".join(
            f"{name}: excess {written(mean_interval(values))}, error of its student divided by that of a random "
            f"network's {written(mean_interval(ratio[name]), 2)}, recurrent (at most {FOUND}) in {found[name]} of "
            f"{len(values)} seeds"
            for name, values in excess.items()
        )
        return Summary(rows, judge_excess(HYPOTHESIS, rows, TIED, RANDOM, evidence))

    def draw(self, rows: list[ConditionRow]) -> Figure:
        """Draw the matrices and the outcome by condition."""
        return draw_conditions(rows, "Controls")
