"""Does stochastic depth make depth more recurrent? (Figure 4)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raptor.core.correlation import exact_rank_correlation
from raptor.render.charts import Figure
from raptor.studies.analysis import (
    Hypothesis,
    difference_interval,
    format_p,
    mean_interval,
    pooled_deviation,
    smallest_detected,
    written,
)
from raptor.studies.conditions import ConditionRow, column, condition_jobs, condition_rows, judge_excess
from raptor.studies.jobs import Done, Job
from raptor.studies.registry import Study, Summary, study
from raptor.studies.setting import StudySetting
from raptor.studies.teachers import EARLY, STANDARD, dropped, unique

HYPOTHESIS = Hypothesis(
    "stochastic depth makes depth more recurrent",
    0.06,  # the change of R2 that the paper reports
    "excess of skill with stochastic depth less that of the standard",
)
TRAINABLE = 0.6  # the later version of the paper says that higher rates train badly


@study("stochastic-depth", "Each dot is a teacher with its student of three blocks.", "Figure 4", wide=True)
class StochasticDepth(Study[ConditionRow]):
    """Standard teachers, teachers with stochastic depth, and standard ones stopped at their accuracy; other rates."""

    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return three conditions with all seeds, and all rates with the first."""
        return unique(
            [
                *self.primary_jobs(setting),
                *condition_jobs(setting, _rates(setting), setting.size.seeds[:1]),
            ]
        )

    def primary_jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return the conditions with all seeds."""
        return condition_jobs(setting, _conditions(setting), setting.size.seeds)

    def summarise(self, setting: StudySetting, done: Done) -> Summary[ConditionRow]:
        """Return a row per teacher, and whether the outcome rises with stochastic depth."""
        conditions, seeds = _conditions(setting), setting.size.seeds
        rows = condition_rows(done, conditions, seeds)
        excess = {name: column(rows, "excess", name) for name in conditions}
        treated = excess[conditions[1]]
        parts = [
            f"{name}: top-1 {written(mean_interval(column(rows, 'top1', name)))}, recovered "
            f"{written(mean_interval(column(rows, 'recovered', name)))}, excess {written(mean_interval(values))}"
            for name, values in excess.items()
        ]
        against = difference_interval(treated, excess[EARLY])
        by_seed = [{row.seed: row.excess for row in rows if row.condition == name} for name in (conditions[1], EARLY)]
        paired = mean_interval(
            [by_seed[0][seed] - by_seed[1][seed] for seed in seeds if all(seed in one for one in by_seed)]
        )
        parts.append(
            f"against standard teachers stopped at the same accuracy {written(against)}, and paired by seed "
            f"{written(paired)}"
        )
        r2 = [column(rows, "r2", name) for name in (conditions[1], STANDARD)]
        parts.append(f"change of R2, the paper's measure {written(difference_interval(*r2))}")
        smallest = smallest_detected(pooled_deviation(treated, excess[STANDARD]), len(seeds))
        parts.append(f"smallest effect that this design detects in 80% of simulations {smallest:.3f}")
        shape = condition_rows(done, _rates(setting), seeds[:1])
        trained = [row for row in shape if row.drop_path <= TRAINABLE]
        rho, p = exact_rank_correlation([row.drop_path for row in trained], [row.r2 for row in trained])
        parts.append(
            f"rank correlation of R2 with the rate, {len(trained)} rates up to {TRAINABLE} of one seed: {rho:.2f} "
            f"({format_p(p)})"
        )
        rows += [row for row in shape if row not in rows]
        return Summary(rows, judge_excess(HYPOTHESIS, rows, conditions[1], STANDARD, "; ".join(parts)))

    def draw(self, rows: list[ConditionRow]) -> Figure:
        """Draw Figure 4: matrices, fidelity by layer, and the outcome by rate and by condition."""
        import altair as alt

        from raptor.render.charts import PALETTE
        from raptor.studies.panels import R2, cells, lines, matrices, points, strips

        x, table = "rate of stochastic depth", cells(rows)
        firsts = sorted((r for r in rows if r.seed == rows[0].seed and r.condition != EARLY), key=lambda r: r.drop_path)
        accuracy = [
            {"drop_path": row.drop_path, "of": name, "top1": value}
            for row in firsts
            for name, value in (("teacher", row.top1), ("Raptor", row.student_top1))
        ]
        of = alt.Color("of:N", title=None, scale=alt.Scale(domain=["teacher", "Raptor"], range=["#000000", PALETTE[0]]))
        shown = firsts[:: -(-len(firsts) // len(PALETTE))]  # as many as there are colours
        curves = [
            lines({row.drop_path: [row.by_layer[measure][group]] for row in shown}, "drop path", f"{called}, {group}")
            for measure, called in (("r2", "R2"), ("pearson2", "squared correlation"))
            for group in ("cls", "patch")
        ]
        several = [row for row in table if sum(row["condition"] == one["condition"] for one in table) > 1] or table
        columns = {"excess": "excess of skill", "skill": "skill", "recovered": "accuracy recovered", "top1": "top-1"}
        rates = cells(firsts)
        chart = alt.vconcat(
            matrices(firsts, [f"drop path {row.drop_path:g}" for row in firsts]),
            alt.hconcat(*curves),
            alt.hconcat(
                points(accuracy, "drop_path", "top1", x, "top-1", color=of),
                points(rates, "drop_path", "excess", x, "excess of skill"),
                points(rates, "drop_path", "r2", x, R2),
                points(rates, "within", "r2", "cosine within phases", R2),
            ),
            strips(several, "condition", columns),
        )
        return Figure(chart.properties(title="Stochastic depth"), table)


def _conditions(setting: StudySetting) -> list[str]:
    return [STANDARD, dropped(setting.size.drop_path).name, EARLY]


def _rates(setting: StudySetting) -> list[str]:
    return [dropped(rate).name for rate in setting.size.drop_paths]
