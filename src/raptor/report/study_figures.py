"""Figures of studies, one function each, from the rows of their summaries."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.report.drawing import PALETTE, SEQUENTIAL

PANEL = 220  # pixels
Rows = list[dict[str, Any]]


def table(rows: Rows) -> Rows:
    """Return the rows without what is a matrix or a list: what fits into cells."""
    return [{key: value for key, value in row.items() if not isinstance(value, list)} for row in rows]


def _points(rows: Rows, x: str, y: str, x_title: str, y_title: str, **more: Any) -> alt.Chart:
    return (
        alt.Chart(alt.Data(values=table(rows)))
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(zero=False, padding=12)),
            y=alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip(f"{name}:N") for name in table(rows)[0]],
            **more,
        )
        .properties(width=PANEL, height=PANEL)
    )


R2 = "R2 at the last layer"


def stochastic_depth(rows: Rows) -> alt.HConcatChart:
    """Draw fidelity and accuracy by rate, fidelity by accuracy, and fidelity by similarity."""
    return alt.hconcat(
        _points(rows, "drop_path", "r2", "rate of stochastic depth", R2),
        _points(rows, "drop_path", "top1", "rate of stochastic depth", "top-1 of the teacher"),
        _points(rows, "top1", "r2", "top-1 of the teacher", R2),
        _points(rows, "within", "r2", "cosine within phases", R2),
    ).properties(title="Stochastic depth")


def partitions(rows: Rows) -> alt.Chart:
    """Draw all partitions by k."""
    colour = alt.Color("found:N", title="found", scale=alt.Scale(domain=[True, False], range=["#D55E00", "#999999"]))
    chart = _points(rows, "k", "r2", "blocks k", R2, color=colour)
    return chart.encode(x=alt.X("k:O", title="blocks k", axis=alt.Axis(labelAngle=0))).properties(
        title="Found phases and other cuts"
    )


def emergence(rows: Rows) -> alt.HConcatChart:
    """Draw similarity and fidelity along training."""
    names = {"within": "cosine within phases", "between": "cosine between phases", "r2": R2, "r2_cls": "R2 of cls",
             "top1": "top-1"}  # fmt: skip
    panels = [
        _points(rows, "share", name, "share of the training", title).mark_line(point=True)
        for name, title in names.items()
    ]
    return alt.hconcat(*panels).properties(title="Along training")


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


def gallery(rows: Rows) -> alt.HConcatChart:
    """Draw the matrices."""
    colour = alt.Color("value:Q", title="cosine", scale=alt.Scale(scheme=SEQUENTIAL, domain=[0, 1]))
    panels = []
    for row in rows:
        cells = [
            {"row": i + 1, "column": j + 1, "value": value}
            for i, line in enumerate(row["similarity"])
            for j, value in enumerate(line)
        ]
        grid = alt.Chart(alt.Data(values=cells)).mark_rect()
        x, y = (alt.X("column:O", title="layer"), alt.Y("row:O", title="layer"))
        title = alt.Title(f"drop path {row['drop_path']:g}", subtitle=f"{row['verdict']}, {row['phases']}")
        panels.append(grid.encode(x=x, y=y, color=colour).properties(width=PANEL, height=PANEL, title=title))
    return alt.hconcat(*panels).properties(title="Similarity between layers")


DRAWN = {
    "stochastic-depth": stochastic_depth,
    "partitions": partitions,
    "emergence": emergence,
    "ablation": ablation,
    "k-curve": k_curve,
    "gallery": gallery,
}
