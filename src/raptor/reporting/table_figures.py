"""Figure 5: what surrogates are worth, by their number of blocks and by how close they are."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.reporting.drawing import HEIGHT

COLOURS = {"surrogate": "#0072B2", "untied": "#D55E00"}
HALF = 240  # pixels of either panel


def figure5(rows: list[dict[str, Any]]) -> alt.HConcatChart:
    """Draw top-1 of fine-tuned probes against k and against R2; lines are the teacher and the baseline."""
    made = [row | {"low": row["top1_ci"][0], "high": row["top1_ci"][1]} for row in rows if row["kind"] in COLOURS]
    lines = [row for row in rows if row["kind"] in ("teacher", "baseline")]
    ends = [end for row in made for end in (row["low"], row["high"])] + [row["top1"] for row in lines]
    y = alt.Y("top1:Q", title="top-1", axis=alt.Axis(format=".1%"), scale=alt.Scale(domain=[min(ends), max(ends)]))
    left = _panel(made, lines, alt.X("k:O", title="blocks k", axis=alt.Axis(labelAngle=0)), y)
    closeness = alt.X(
        "r2:Q", title="R2 at the last layer", axis=alt.Axis(format=".3f", tickCount=5),
        scale=alt.Scale(zero=False, padding=12),
    )  # fmt: skip
    right = _panel(made, lines, closeness, y)
    n = rows[0]["tasks"]["classify"]["images_by_split"]["report"]
    title = alt.Title(
        "What surrogates recover", subtitle=f"top-1 of linear probes, n = {n} images; bars: 95% bootstrap intervals"
    )
    return (left | right).properties(title=title)


def _panel(made: list[dict[str, Any]], lines: list[dict[str, Any]], x: alt.X, y: alt.Y) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=[{key: row[key] for key in PLOTTED} for row in made]))
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())))
    shown = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("top1", "low", "high", "r2")]
    points = base.mark_point(filled=True, size=70).encode(x=x, y=y, color=colour, tooltip=["row:N", *shown])
    bars = base.mark_rule().encode(x=x, y=alt.Y("low:Q", title="top-1"), y2="high:Q", color=colour)
    named = alt.Data(values=[{"row": row["row"], "kind": row["kind"], "top1": row["top1"]} for row in lines])
    rules = alt.Chart(named).mark_rule().encode(
        y=y, tooltip=["row:N", alt.Tooltip("top1:Q", format=".4f")],
        strokeDash=alt.StrokeDash("kind:N", title=None, scale=alt.Scale(domain=["teacher", "baseline"],
                                                                        range=[[1, 0], [5, 4]])),
    )  # fmt: skip
    return (rules + bars + points).properties(width=HALF, height=HEIGHT)


PLOTTED = ("row", "kind", "k", "r2", "top1", "low", "high")
