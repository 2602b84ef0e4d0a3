"""Layer-layer matrices as heat maps, with lines at the boundaries of phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
from numpy.typing import NDArray

from raptor.core.phases import Phases
from raptor.render.charts import SEQUENTIAL, Row, chart_of
from raptor.render.panels import CUTS

CELLS = 300  # pixels of a matrix
SMALL_CELLS = 180
CUT = "#E69F00"


def cells(matrix: NDArray[Any], first: int, **more: Any) -> list[Row]:
    """Return one row per pair of layers; `first` is the layer of the first row of the matrix."""
    return [
        {"row": first + i, "column": first + j, "value": round(float(value), 5), **more}
        for i, line in enumerate(matrix)
        for j, value in enumerate(line)
    ]


def cuts(partitions: dict[int, Phases], last: int, group: str = "") -> tuple[alt.Chart, alt.Chart]:
    """Draw vertical and horizontal lines at the boundaries of each partition."""
    rows = [
        {"k": k, "group": group, "at": boundary + 0.5, "from": 0.5, "to": last + 0.5, "phases": str(phases)}
        for k, phases in partitions.items()
        for boundary in phases.boundaries
    ]
    lines = chart_of(rows).mark_rule(color=CUT, strokeWidth=2.5).encode(tooltip="phases:N")
    upright, level = lines.encode(x="at:Q", y="from:Q", y2="to:Q"), lines.encode(y="at:Q", x="from:Q", x2="to:Q")
    return upright.properties(name=f"{CUTS}-x-{group}"), level.properties(name=f"{CUTS}-y-{group}")


def heat(
    rows: list[Row], first: int, last: int, size: int, colour: alt.Color, across: str = "layer", down: str = "layer"
) -> alt.Chart:
    """Draw a matrix of the layers `first` to `last`, the first one at the top left; both axes have a title."""
    ticks = alt.Axis(values=list(range(first, last + 1, max(1, (last - first) // 12))), grid=False, format="d")
    scale = {"domain": [first - 0.5, last + 0.5], "nice": False, "padding": 0}
    return (
        chart_of(rows)
        .transform_calculate(
            left="datum.column - 0.5", right="datum.column + 0.5", top="datum.row - 0.5", bottom="datum.row + 0.5"
        )
        .mark_rect()
        .encode(
            x=alt.X("left:Q", title=across, axis=ticks, scale=alt.Scale(**scale)),
            x2="right:Q",
            y=alt.Y("top:Q", title=down, axis=ticks, scale=alt.Scale(**scale, reverse=True)),
            y2="bottom:Q",
            color=colour,
            tooltip=["row:Q", "column:Q", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(width=size, height=size)
    )


@dataclass(frozen=True)
class Panel:
    """A matrix with its phases.

    Parameters
    ----------
    title, subtitle
        Text above it.
    first
        The layer of the first row.
    matrix
        Similarity between layers.
    phases
        Where its boundaries are drawn.
    """

    title: str
    subtitle: str
    first: int
    matrix: NDArray[Any]
    phases: Phases


def side_by_side(panels: list[Panel], columns: int = 3) -> alt.ConcatChart:
    """Draw matrices with their boundaries, all on the same colour scale."""
    low = min(0.0, *(float(panel.matrix.min()) for panel in panels))
    colour = alt.Color("value:Q", title="cosine", scale=alt.Scale(scheme=SEQUENTIAL, domain=[low, 1.0]))
    charts = []
    for panel in panels:
        last = panel.first + len(panel.matrix) - 1
        drawn = heat(cells(panel.matrix, panel.first), panel.first, last, SMALL_CELLS, colour)
        lines = cuts({panel.phases.k: panel.phases}, last)
        charts.append(alt.layer(drawn, *lines).properties(title=alt.Title(panel.title, subtitle=panel.subtitle)))
    return alt.concat(*charts, columns=columns)
