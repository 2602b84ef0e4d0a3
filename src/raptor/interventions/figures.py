"""Figures of `raptor intervene`."""

from __future__ import annotations

import altair as alt
import numpy as np

from raptor.interventions.intervene import InterveneResult
from raptor.render.charts import SEQUENTIAL, Figure, Row, chart_of
from raptor.render.matrix_charts import cells, cuts, heat
from raptor.render.registry import figure

PANEL, MATRIX = 150, 240  # pixels
WHERE = {"intra": "within a phase", "inter": "across phases"}
COLOURS = ["#0072B2", "#D55E00"]
AXES = {"replace": ("replaced by layer", "layer"), "interchange": ("layer", "other layer")}  # of a matrix
PANELS = {"replace": "replace a layer (row) by another (column)", "interchange": "interchange two layers"}


@figure(
    "intervene", "interventions", "interventions",
    "Accuracy (without labels: cosine with the unchanged output) after layers are replaced by others, interchanged, "
    "skipped or repeated, within a phase and across phases. Dashed: the unchanged model.",
    "Figure 15 of its second version", wide=True, order=60, title="Changing several layers",
)  # fmt: skip
def interventions(result: InterveneResult, name: str) -> Figure:
    """Draw the score by the number of changed layers, one panel per experiment."""
    rows = [
        {"experiment": experiment, "layers": layers, "where": label, "value": effect.score.value,
         "low": effect.score.low, "high": effect.score.high, "cosine": effect.cosine.value, "orders": effect.orders}
        for experiment, by_n in result.experiments.items()
        for layers, contrast in by_n.items()
        for where, label in WHERE.items()
        if (effect := getattr(contrast, where)) is not None
    ]  # fmt: skip
    panels = [_panel([row for row in rows if row["experiment"] == one], one, result) for one in result.experiments]
    title = alt.Title(
        f"Layer interventions: {name}",
        subtitle=f"n = {result.untouched.score.n} images; bars: 95% bootstrap intervals over images, seed "
        f"{result.seed}; line: the unchanged model",
    )
    return Figure(alt.hconcat(*panels).properties(title=title), rows)


@figure(
    "intervene", "causal-matrix", "interventions",
    "Change of the output: KL divergence of the predictions or, for models without a classifier, 1 - cosine of the "
    "last layer. First: a layer (row) is replaced by another (column). Second: two layers change places. Third: a "
    "layer is skipped. Lines: phase boundaries. Darker is less harm.",
    wide=True, order=40, title="Changing one layer: which layers can stand in for which?",
    beside="Which layers can stand in for which?",
)  # fmt: skip
def causal_matrix(result: InterveneResult, name: str) -> Figure | None:
    """Draw the matrices of single layers: KL of predictions where there is a classifier, else 1 - cosine."""
    if result.matrix is None:
        return None
    harm = result.matrix.logits or result.matrix.state
    label = "KL of predictions (nats)" if result.matrix.logits else "1 - cosine of the last layer"
    depth = len(harm.skip)
    tables = {"replace": harm.replace, "interchange": harm.interchange}
    most = max(max(map(max, table)) for table in tables.values())
    colour = alt.Color(
        "value:Q", title=label, scale=alt.Scale(scheme=SEQUENTIAL, domain=[0.0, max(most, 1e-9)], clamp=True)
    )
    panels: list[alt.Chart | alt.LayerChart] = []
    rows: list[Row] = []
    for kind, table in tables.items():
        own = cells(np.array(table), 1, experiment=kind)
        rows += own
        lines = cuts({result.phases.k: result.phases}, depth)
        panels.append(
            alt.layer(heat(own, 1, depth, MATRIX, colour, *AXES[kind]), *lines).properties(title=PANELS[kind])
        )
    skipped: list[Row] = [
        {"row": layer + 1, "column": layer + 1, "value": value, "experiment": "skip"}
        for layer, value in enumerate(harm.skip)
    ]
    ticks = alt.Axis(tickMinStep=1, format="d")
    bars = chart_of(skipped).transform_calculate(depth="datum.row").mark_bar(size=10).encode(
        x=alt.X("depth:Q", title="layer", axis=ticks, scale=alt.Scale(domain=[0.5, depth + 0.5])),
        y=alt.Y("value:Q", title=label), color=alt.value(COLOURS[0]),
        tooltip=["row:Q", alt.Tooltip("value:Q", format=".3f")],
    )  # fmt: skip
    panels.append(bars.properties(width=MATRIX, height=MATRIX, title="skip a layer"))
    title = alt.Title(f"One layer changed: {name}", subtitle=f"n = {result.matrix.n} images")
    return Figure(alt.hconcat(*panels).properties(title=title), [*rows, *skipped])


def _panel(rows: list[Row], experiment: str, result: InterveneResult) -> alt.LayerChart:
    base = chart_of(rows).encode(
        x=alt.X("layers:O", title="number of layers changed", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("where:N", sort=list(WHERE.values())),
        color=alt.Color("where:N", title=None, scale=alt.Scale(domain=list(WHERE.values()), range=COLOURS)),
    )
    y = alt.Y("value:Q", title=result.measure, scale=alt.Scale(domain=[min([0.0, *(row["low"] for row in rows)]), 1.0]))
    numbers = [alt.Tooltip(f"{field}:Q", format=".4f") for field in ("value", "low", "high", "cosine")]
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=["where:N", "orders:Q", *numbers])
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=result.measure), y2="high:Q")
    line = chart_of([{"value": result.untouched.score.value}]).mark_rule(strokeDash=[4, 3], color="#777777")
    return (line.encode(y="value:Q") + bars + points).properties(width=PANEL, height=PANEL + 40, title=experiment)
