"""Figures of `raptor intervene`."""

from __future__ import annotations

import altair as alt

from raptor.interventions.intervene import InterveneResult
from raptor.render.charts import Figure, Row
from raptor.render.registry import figure

PANEL = 150  # pixels
WHERE = {"intra": "within a phase", "inter": "across phases"}
COLOURS = ["#0072B2", "#D55E00"]


@figure(
    "intervene", "interventions", "interventions",
    "Accuracy after layers are replaced by others, interchanged, skipped or repeated, within a phase and across "
    "phases. If the images have no labels, the cosine with the unchanged output is shown. The dashed line is the "
    "unchanged model.",
    "Figure 15 of its second version", wide=True,
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


def _panel(rows: list[Row], experiment: str, result: InterveneResult) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("layers:O", title="layers changed", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("where:N", sort=list(WHERE.values())),
        color=alt.Color("where:N", title=None, scale=alt.Scale(domain=list(WHERE.values()), range=COLOURS)),
    )
    y = alt.Y("value:Q", title=result.measure, scale=alt.Scale(domain=[min([0.0, *(row["low"] for row in rows)]), 1.0]))
    numbers = [alt.Tooltip(f"{field}:Q", format=".4f") for field in ("value", "low", "high", "cosine")]
    points = base.mark_point(filled=True, size=60).encode(y=y, tooltip=["where:N", "orders:Q", *numbers])
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title=result.measure), y2="high:Q")
    own = alt.Data(values=[{"value": result.untouched.score.value}])
    line = alt.Chart(own).mark_rule(strokeDash=[4, 3], color="#777777")
    return (line.encode(y="value:Q") + bars + points).properties(width=PANEL, height=PANEL + 40, title=experiment)
