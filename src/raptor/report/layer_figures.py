"""Figures of measures by layer, one function each."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.dynamics.by_layer import ByLayer
from raptor.report.drawing import GROUP_COLOURS, HEIGHT, WIDTH


def _rows(values: ByLayer) -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "layer": layer,
            "value": mean,
            "low": values.low[group][layer],
            "high": values.high[group][layer],
        }
        for group, means in values.mean.items()
        for layer, mean in enumerate(means)
    ]


def norms(values: ByLayer, title: str) -> alt.LayerChart:
    """Draw the norm of each token group by layer, with its 95% band over images (the paper's Figure 7)."""
    colour = alt.Color(
        "group:N",
        title="tokens",
        legend=alt.Legend(symbolOpacity=1),
        scale=alt.Scale(domain=list(values.mean), range=[GROUP_COLOURS[group] for group in values.mean]),
    )
    x = alt.X("layer:O", title="layer (0 is the embedding)", axis=alt.Axis(labelAngle=0))
    base = alt.Chart(alt.Data(values=_rows(values)))
    band = base.mark_area(opacity=0.2).encode(
        x=x, y=alt.Y("low:Q", title="mean norm of a token"), y2="high:Q", color=colour
    )
    line = base.mark_line(point=True).encode(
        x=x,
        y="value:Q",
        color=colour,
        tooltip=["group:N", "layer:O", *(alt.Tooltip(f"{f}:Q", format=".3f") for f in ("value", "low", "high"))],
    )
    subtitle = f"n = {values.n} images; band: 95% bootstrap interval over images, seed {values.seed}"
    return (band + line).properties(width=WIDTH, height=HEIGHT, title=alt.Title(title, subtitle=subtitle))
