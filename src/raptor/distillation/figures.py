"""Figures of `raptor distill`: fidelity by layer, and losses by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from raptor.core.serialize import to_plain
from raptor.distillation.result import STAGE_NAMES, DistillResult, read_losses
from raptor.evaluation.fidelity_chart import CAPTION, fidelity_chart
from raptor.render.charts import HEIGHT, PALETTE, WIDTH, Figure, Row, chart_of, log_ticks
from raptor.render.registry import figure, figure_of_runs
from raptor.runtime.rundir import Record

LOSS = "loss (not comparable between stages)"


@figure("distill", "fidelity", None, CAPTION, wide=True)
def fidelity(result: DistillResult, name: str) -> Figure:
    """Draw fidelity by layer; `name` is the teacher's."""
    return Figure(fidelity_chart(result.fidelity.by_layer, result.phases, f"Surrogate {result.phases} of {name}"))


@figure("distill", "training", None, "Training loss by step, for both stages.")
def training(result: DistillResult, name: str) -> Figure | None:
    """Draw the loss of each stage by step."""
    rows = [{"surrogate": str(result.phases), **to_plain(point)} for point in result.losses]
    return _losses(rows) if rows else None


@figure_of_runs(
    "surrogates-training", "surrogate",
    "Training loss of the surrogates that were trained in these runs; surrogates that were loaded have none. Stage 1 "
    "trains each block alone (blockwise), stage 2 all blocks together (end-to-end). A short training, such as that of "
    "`raptor demo`, shows how it works and not what a surrogate can reach: the top of the page shows another surrogate "
    "if there is one.",
    order=60, title="How were the surrogates trained?",
)  # fmt: skip
def surrogates_training(records: Mapping[str, Sequence[Record[Any]]]) -> Figure | None:
    """Draw the losses of all surrogates, one panel per stage."""
    rows: list[Row] = [
        {"surrogate": _label(record), **to_plain(point)}
        for record in records.get("distill", ())
        for point in read_losses(record.out)
    ]
    return _losses(rows) if rows else None


def _label(record: Record[DistillResult]) -> str:
    result = record.result
    steps = " + ".join(map(str, result.steps))
    return f"k = {result.phases.k} ({result.phases}), {steps} steps, recipe {result.recipe}"


def _losses(rows: list[Row]) -> Figure:
    names = list(dict.fromkeys(row["surrogate"] for row in rows))
    colours = alt.Scale(domain=names, range=[PALETTE[-2 - i % len(PALETTE)] for i in range(len(names))])
    panels = []
    for stage in STAGE_NAMES:
        own = [row for row in rows if row["stage"] == stage]
        if not own:
            continue
        panels.append(
            chart_of(own)
            .mark_line(point=True)
            .encode(
                x=alt.X("step:Q", title="optimiser step"),
                y=alt.Y(
                    "loss:Q", scale=alt.Scale(type="log", nice=False, padding=12), title=LOSS,
                    axis=alt.Axis(values=log_ticks(row["loss"] for row in own)),
                ),
                color=alt.Color("surrogate:N", title="surrogate", scale=colours),
                tooltip=["surrogate:N", "step:Q", alt.Tooltip("loss:Q", format=".4f"),
                         alt.Tooltip("seconds:Q", format=".0f")],
            )
            .properties(width=WIDTH, height=HEIGHT, title=f"{stage} stage")
        )  # fmt: skip
    return Figure(alt.hconcat(*panels).properties(title="Training of the surrogates"), rows)
