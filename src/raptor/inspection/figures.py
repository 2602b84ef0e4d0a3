"""Figures of `raptor inspect`."""

from __future__ import annotations

import altair as alt

from raptor.inspection.inspect import InspectResult
from raptor.render.charts import SEQUENTIAL, WIDTH, Figure, chart_of
from raptor.render.layer_charts import NORM, by_layer
from raptor.render.registry import figure


@figure(
    "inspect", "norms", "depth", "Mean norm of tokens by layer, with 95% intervals over images.", "Figure 7",
    order=90, title="How long are the tokens?", wide=True,
)  # fmt: skip
def norms(result: InspectResult, name: str) -> Figure | None:
    """Draw the norms by layer and token group."""
    return None if result.norm is None else by_layer(result.norm, f"Norms by layer: {name}", NORM)


@figure(
    "inspect",
    "outliers",
    "depth",
    "Share of images in which each patch has a massive activation: a norm of more than 5 times the median. It is drawn "
    "for the layer at which such patches hold most of the variance.",
    order=91,
    title="Where are the outlier tokens?",
)
def outliers(result: InspectResult, name: str) -> Figure | None:
    """Draw where outlier tokens are; nothing for a model without them."""
    found = result.outliers
    if found is None or not found.massive:
        return None
    rows = [
        {"row": row, "column": column, "share": share}
        for row, shares in enumerate(found.where)
        for column, share in enumerate(shares)
    ]
    side = max(8, min(24, WIDTH // max(len(found.where), len(found.where[0]))))
    chart = (
        chart_of(rows)
        .mark_rect()
        .encode(
            x=alt.X("column:O", title=None, axis=None),
            y=alt.Y("row:O", title=None, axis=None),
            color=alt.Color("share:Q", title="share of images", scale=alt.Scale(scheme=SEQUENTIAL)),
            tooltip=["row:O", "column:O", alt.Tooltip("share:Q", format=".3f")],
        )
        .properties(
            width=side * len(found.where[0]),
            height=side * len(found.where),
            title=f"Outlier tokens at layer {found.worst_layer}: {name}",
        )
    )
    return Figure(chart, rows)
