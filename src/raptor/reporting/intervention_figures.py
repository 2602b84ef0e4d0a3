"""Figure 15 of the later version: layers replaced, interchanged, skipped or repeated, within phases and across them."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.interventions import Contrast, Effect
from raptor.reporting.drawing import Figure

PANEL = 150  # pixels
WHERE = {"intra": "within a phase", "inter": "across phases"}
COLOURS = ["#0072B2", "#D55E00"]


def interventions(
    found: dict[str, dict[int, Contrast]], own: Effect, measure: str, title: str, n: int, seed: int
) -> Figure:
    """Draw what is left of accuracy, or of the last state, by how many layers are changed; the line is the model."""
    rows = [
        {"experiment": name, "layers": layers, "where": label, "value": effect.mean, "low": effect.ci[0],
         "high": effect.ci[1], "cosine": effect.cosine, "orders": effect.orders}
        for name, by_n in found.items()
        for layers, contrast in by_n.items()
        for where, label in WHERE.items()
        if (effect := getattr(contrast, where)) is not None
    ]  # fmt: skip
    panels = [_panel([row for row in rows if row["experiment"] == name], name, own, measure) for name in found]
    subtitle = f"n = {n} images; bars: 95% bootstrap intervals over images, seed {seed}; line: the model as it is"
    return Figure(alt.hconcat(*panels).properties(title=alt.Title(title, subtitle=subtitle)), rows)


def _panel(rows: list[dict[str, Any]], name: str, own: Effect, measure: str) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("layers:O", title="layers changed", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("where:N", sort=list(WHERE.values())),
        color=alt.Color("where:N", title=None, scale=alt.Scale(domain=list(WHERE.values()), range=COLOURS)),
    )
    y = alt.Y("value:Q", title=measure, scale=alt.Scale(domain=[min([0.0, *(row["low"] for row in rows)]), 1.0]))
    numbers = [alt.Tooltip(f"{field}:Q", format=".4f") for field in ("value", "low", "high", "cosine")]
    points = base.mark_point(filled=True, size=60).encode(y=y, tooltip=["where:N", "orders:Q", *numbers])
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title=measure), y2="high:Q")
    line = alt.Chart(alt.Data(values=[{"value": own.mean}])).mark_rule(strokeDash=[4, 3], color="#777777")
    return (line.encode(y="value:Q") + bars + points).properties(width=PANEL, height=PANEL + 40, title=name)
