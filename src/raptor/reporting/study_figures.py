"""Figures of studies, one function each, from the rows of their summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from raptor.formatting import cells
from raptor.phases import Phases
from raptor.reporting.drawing import PALETTE
from raptor.reporting.phase_figures import Panel, side_by_side

PANEL = 220  # pixels
Rows = list[dict[str, Any]]


def _points(rows: Rows, x: str, y: str, x_title: str, y_title: str, **more: Any) -> alt.Chart:
    return (
        alt.Chart(alt.Data(values=cells(rows)))
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(zero=False, padding=12)),
            y=alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip(f"{name}:N") for name in cells(rows)[0]],
            **more,
        )
        .properties(width=PANEL, height=PANEL)
    )


R2 = "R2 at the last layer"


def stochastic_depth(rows: Rows) -> alt.VConcatChart:
    """Draw Figure 4: matrices, fidelity by layer, and by rate, accuracy and similarity."""
    rate = "rate of stochastic depth"
    firsts = [row for row in rows if row["seed"] == rows[0]["seed"]]
    accuracy = [
        {"drop_path": row["drop_path"], "of": name, "top1": row[key]}
        for row in rows
        for name, key in (("teacher", "top1"), ("Raptor", "student_top1"))
    ]
    of = alt.Color("of:N", title=None, scale=alt.Scale(domain=["teacher", "Raptor"], range=["#000000", PALETTE[0]]))
    return alt.vconcat(
        _matrices(firsts, [f"drop path {row['drop_path']:g}" for row in firsts]),
        alt.hconcat(*(_by_layer(rows, measure, group) for measure in ("r2", "pearson2") for group in ("cls", "patch"))),
        alt.hconcat(
            _points(accuracy, "drop_path", "top1", rate, "top-1", color=of),
            _points(rows, "drop_path", "r2", rate, R2),
            _points(rows, "top1", "r2", "top-1 of the teacher", R2),
            _points(rows, "within", "r2", "cosine within phases", R2),
        ),
    ).properties(title="Stochastic depth")


def _by_layer(rows: Rows, measure: str, group: str) -> alt.Chart:
    """Draw the mean over seeds of a measure of Raptors, a line a rate."""
    values = [
        {"rate": row["drop_path"], "layer": layer, "value": value}
        for row in rows
        for layer, value in enumerate(row["by_layer"][measure][group], start=1)
    ]
    rates = sorted({row["drop_path"] for row in rows})
    colour = alt.Color("rate:N", title="drop path", scale=alt.Scale(domain=rates, range=list(PALETTE[: len(rates)])))
    return (
        alt.Chart(alt.Data(values=values))
        .mark_line(point=True)
        .encode(
            x=alt.X("layer:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("mean(value):Q", title=f"{measure} of {group}", scale=alt.Scale(zero=False)),
            color=colour,
        )
        .properties(width=PANEL, height=PANEL)
    )


def partitions(rows: Rows) -> alt.Chart:
    """Draw all partitions by k."""
    colour = alt.Color("found:N", title="found", scale=alt.Scale(domain=[True, False], range=["#D55E00", "#999999"]))
    chart = _points(rows, "k", "r2", "blocks k", R2, color=colour)
    return chart.encode(x=alt.X("k:O", title="blocks k", axis=alt.Axis(labelAngle=0))).properties(
        title="Found phases and other cuts"
    )


def emergence(rows: Rows) -> alt.VConcatChart:
    """Draw the matrices, similarity and fidelity along training."""
    names = {"within": "cosine within phases", "between": "cosine between phases", "r2": R2, "r2_cls": "R2 of cls",
             "top1": "top-1"}  # fmt: skip
    panels = [
        _points(rows, "share", name, "share of the training", title).mark_line(point=True)
        for name, title in names.items()
    ]
    titles = [f"after {row['share']:.0%} of the training" for row in rows]
    return alt.vconcat(_matrices(rows, titles), alt.hconcat(*panels)).properties(title="Along training")


def ablation(rows: Rows) -> alt.HConcatChart:
    """Draw the rows of the table, a dot a seed."""
    order = [row["row"] for row in rows]
    panels = []
    for name, title in (("r2", R2), ("r2_cls", "R2 of cls"), ("recovered", "accuracy recovered")):
        seeds = [{"row": row["row"], "value": value} for row in rows for value in row[f"{name}_by_seed"]]
        base = alt.Chart(alt.Data(values=seeds)).mark_point(filled=True, opacity=0.7, color=PALETTE[4])
        y = alt.Y("row:N", sort=order, title=None)
        panels.append(
            base.encode(x=alt.X("value:Q", title=title, scale=alt.Scale(zero=False)), y=y).properties(
                width=PANEL, height=PANEL
            )
        )
    return alt.hconcat(*panels).properties(title="What each part adds")


def k_curve(rows: Rows) -> alt.HConcatChart:
    """Draw fidelity and accuracy by number of blocks."""
    widths = sorted({row["width"] for row in rows})
    colour = alt.Color("width:N", title="width", scale=alt.Scale(domain=widths, range=list(PALETTE[: len(widths)])))
    panels = [
        _points(rows, "k", name, "blocks k", title, color=colour).mark_line(point=True)
        for name, title in (("r2", R2), ("recovered", "accuracy recovered"))
    ]
    return alt.hconcat(*panels).properties(title="How many blocks")


def gallery(rows: Rows) -> alt.ConcatChart:
    """Draw the matrices."""
    return _matrices(rows, [row["model"] for row in rows]).properties(title="Similarity between layers")


def _matrices(rows: Rows, titles: Sequence[str]) -> alt.ConcatChart:
    panels = [
        Panel(title, f"{row['verdict']}, {row['phases']}", 1, np.array(row["similarity"]), Phases.parse(row["phases"]))
        for row, title in zip(rows, titles, strict=True)
    ]
    return side_by_side(panels, columns=len(panels))


DRAWN = {
    "stochastic-depth": stochastic_depth,
    "partitions": partitions,
    "emergence": emergence,
    "ablation": ablation,
    "k-curve": k_curve,
    "gallery": gallery,
}
