"""Panels that figures of studies are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import altair as alt
import numpy as np

from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.phases.form.candidates import KIND_NAMES
from raptor.render.charts import PALETTE, Row, chart_of
from raptor.render.matrix_charts import Panel, side_by_side

PANEL = 220  # pixels
R2 = "R2 at the last layer"
Cells = list[Row]


@runtime_checkable
class HasPhases(Protocol):
    """A row with the phases of a teacher; see `PhaseSummary`."""

    @property
    def verdict(self) -> str: ...

    @property
    def phases(self) -> Phases: ...

    @property
    def similarity(self) -> list[list[float]]: ...


def cells(rows: Sequence[object]) -> Cells:
    """Return rows of a summary as JSON without lists and mappings: what fits into the cells of a table."""
    return [
        {name: value for name, value in to_plain(row).items() if not isinstance(value, (list, dict))} for row in rows
    ]


def points(rows: Cells, x: str, y: str, x_title: str, y_title: str, **more: Any) -> alt.Chart:
    """Draw a dot per row; further arguments are encodings."""
    return (
        chart_of(rows)
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(zero=False, padding=12)),
            y=alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip(f"{name}:N") for name in rows[0]],
            **more,
        )
        .properties(width=PANEL, height=PANEL)
    )


def strips(rows: Cells, y: str, columns: Mapping[str, str]) -> alt.HConcatChart:
    """Draw a row of panels, each with a column of the table: a dot per row, and a tick at the mean of each `y`."""
    order = list(dict.fromkeys(row[y] for row in rows))
    panels = []
    for name, title in columns.items():
        base = chart_of(rows).encode(y=alt.Y(f"{y}:N", sort=order, title=None))
        scale = alt.Scale(zero=False, padding=8)
        dots = base.mark_point(filled=True, opacity=0.7, color=PALETTE[4]).encode(
            x=alt.X(f"{name}:Q", title=title, scale=scale)
        )
        means = base.mark_tick(thickness=2, color="#000000").encode(x=alt.X(f"mean({name}):Q", scale=scale))
        panels.append((dots + means).properties(width=PANEL, height=alt.Step(22)))
    return alt.hconcat(*panels)


def lines(curves: Mapping[float, Sequence[Sequence[float]]], name: str, y: str) -> alt.Chart:
    """Draw a line over the layers 1..L for each key of `curves`: the mean of its curves."""
    values = [
        {"rate": of, "layer": layer, "value": value}
        for of, own in curves.items()
        for curve in own
        for layer, value in enumerate(curve, start=1)
    ]
    domain = sorted(curves)
    colour = alt.Color("rate:N", title=name, scale=alt.Scale(domain=domain, range=list(PALETTE[: len(domain)])))
    return (
        chart_of(values)
        .mark_line(point=True)
        .encode(
            x=alt.X("layer:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("mean(value):Q", title=y, scale=alt.Scale(zero=False)),
            color=colour,
        )
        .properties(width=PANEL, height=PANEL)
    )


def matrices(rows: Sequence[HasPhases], titles: Sequence[str]) -> alt.ConcatChart:
    """Draw the similarity matrices of teachers side by side."""
    panels = [
        Panel(
            title, f"{KIND_NAMES.get(row.verdict, row.verdict)}, {row.phases}", 1, np.array(row.similarity), row.phases
        )
        for row, title in zip(rows, titles, strict=True)
    ]
    return side_by_side(panels, columns=len(panels))
