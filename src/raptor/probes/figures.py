"""Figure 5: accuracy of surrogates by their number of blocks and by their fidelity."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.probes.table1 import Table1Result, Table1Row
from raptor.render.charts import HEIGHT, Figure, Row, chart_of
from raptor.render.registry import figure

COLOURS = {"surrogate": "#0072B2", "untied": "#D55E00"}
HALF = 240  # pixels of each panel


@figure(
    "table1", "figure5", "worth", "Top-1 accuracy of linear probes by number of blocks, and by R2 at the last layer.",
    "Figure 5", wide=True, title="What are the features worth?",
)  # fmt: skip
def figure5(result: Table1Result, name: str) -> Figure | None:
    """Draw top-1 of the linear probes against k and against R2; lines are the teacher and the baseline."""
    rows = [row for row in map(_row, result.rows) if row is not None]
    if "classify" not in result.rows[0].tasks:
        return None
    points = [row for row in rows if row["kind"] in COLOURS]
    lines = [
        {key: row[key] for key in ("row", "kind", "top1")} for row in rows if row["kind"] in ("teacher", "baseline")
    ]
    ends = [end for row in points for end in (row["low"], row["high"])] + [row["top1"] for row in lines]
    y = alt.Y("top1:Q", title="top-1", axis=alt.Axis(format=".1%"), scale=alt.Scale(domain=[min(ends), max(ends)]))
    by_k = _panel(points, lines, alt.X("k:O", title="blocks k", axis=alt.Axis(labelAngle=0)), y)
    r2 = alt.X(
        "r2:Q", title="R2 at the last layer", axis=alt.Axis(format=".3f", tickCount=5),
        scale=alt.Scale(zero=False, padding=12),
    )  # fmt: skip
    n = result.rows[0].tasks["classify"].images["report"]
    title = alt.Title(
        f"Accuracy of surrogates: {name}",
        subtitle=f"top-1 of linear probes, n = {n} images; bars: 95% bootstrap intervals",
    )
    return Figure((by_k | _panel(points, lines, r2, y)).properties(title=title))


def _row(row: Table1Row) -> dict[str, Any] | None:
    top1 = row.scores.get("top1")
    if top1 is None:
        return None
    r2 = None if row.r2 is None else row.r2.value
    return {"row": row.row, "kind": row.kind, "k": row.k, "r2": r2, "top1": top1.value, "low": top1.low,
            "high": top1.high}  # fmt: skip


def _panel(points: list[Row], lines: list[Row], x: alt.X, y: alt.Y) -> alt.LayerChart:
    base = chart_of(points)
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())))
    shown = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("top1", "low", "high", "r2")]
    marks = base.mark_point(filled=True, size=70).encode(x=x, y=y, color=colour, tooltip=["row:N", *shown])
    bars = base.mark_rule().encode(x=x, y=alt.Y("low:Q", title="top-1"), y2="high:Q", color=colour)
    dashes = alt.Scale(domain=["teacher", "baseline"], range=[[1, 0], [5, 4]])
    rules = chart_of(lines).mark_rule().encode(
        y=y, tooltip=["row:N", alt.Tooltip("top1:Q", format=".4f")],
        strokeDash=alt.StrokeDash("kind:N", title=None, scale=dashes),
    )  # fmt: skip
    return (rules + bars + marks).properties(width=HALF, height=HEIGHT)
