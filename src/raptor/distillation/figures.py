"""Figures of `raptor distill`: fidelity by layer, and losses by step."""

from __future__ import annotations

import altair as alt

from raptor.core.serialize import to_plain
from raptor.distillation.result import DistillResult
from raptor.evaluation.fidelity_chart import CAPTION, fidelity_chart
from raptor.render.charts import HEIGHT, WIDTH, Figure, chart_of
from raptor.render.registry import figure


@figure("distill", "fidelity", "surrogate", CAPTION, wide=True)
def fidelity(result: DistillResult, name: str) -> Figure:
    """Draw fidelity by layer; `name` is the teacher's."""
    return Figure(fidelity_chart(result.fidelity.by_layer, result.phases, f"Surrogate {result.phases} of {name}"))


@figure(
    "distill",
    "training",
    "surrogate",
    "Training loss. Stage 1 trains each block alone (blockwise), stage 2 all blocks together (end-to-end).",
    order=60,
)
def training(result: DistillResult, name: str) -> Figure:
    """Draw the loss of each stage by step."""
    rows = [to_plain(point) for point in result.losses]
    chart = (
        chart_of(rows)
        .mark_line(point=True)
        .encode(
            x=alt.X("step:Q"),
            y=alt.Y(
                "loss:Q",
                scale=alt.Scale(type="log", nice=False, padding=12),
                title="loss (not comparable between stages)",
            ),
            color=alt.Color("stage:N", title=None, scale=alt.Scale(range=["#0072B2", "#D55E00"])),
            tooltip=["stage:N", "step:Q", alt.Tooltip("loss:Q", format=".4f"), alt.Tooltip("seconds:Q", format=".0f")],
        )
        .properties(width=WIDTH, height=HEIGHT, title="Training of the surrogate")
    )
    return Figure(chart, rows)
