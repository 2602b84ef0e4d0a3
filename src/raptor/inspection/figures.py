"""Figures of `raptor inspect`."""

from __future__ import annotations

import altair as alt

from raptor.inspection.inspect import InspectResult
from raptor.inspection.outliers import OutlierTokens
from raptor.render.charts import GROUP_COLOURS, HEIGHT, SEQUENTIAL, Figure, Row, chart_of, log_ticks
from raptor.render.layer_charts import NORM, STATES, by_layer
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
    "Patches with massive activations: their norm is more than 5 times the median of their layer. First: share of "
    "images in which each patch is one, at the layer at which they hold most of the variance. Second: their share of "
    "all patches and of the variance. Third: norms of patches, on a logarithmic axis.",
    order=91,
    title="Where are the outlier tokens, and from which layer on?",
    wide=True,
)
def outliers(result: InspectResult, name: str) -> Figure | None:
    """Draw where outlier tokens are, and what they hold at each layer; nothing for a model without them."""
    return draw_outliers(result.outliers, name) if result.outliers is not None and result.outliers.massive else None


def draw_outliers(found: OutlierTokens, name: str) -> Figure:
    """Draw the grid of patches, and shares and norms by layer."""
    shares = {"of the variance": found.share_of_variance, "of the patches": found.share_of_tokens}
    norms = {"largest norm": found.largest_norm, "median norm": found.median_norm}
    held, lengths = _rows(shares), _rows(norms)
    where = [
        {"row": row, "column": column, "share": share}
        for row, shares_of_row in enumerate(found.where)
        for column, share in enumerate(shares_of_row)
    ]
    ticks = log_ticks(row["value"] for row in lengths)
    panels = (
        _grid(where).properties(title=f"where, at layer {found.worst_layer}"),
        _lines(held, list(shares), alt.Y("value:Q", title="share")).properties(title="what outliers hold"),
        _lines(lengths, list(norms), alt.Y("value:Q", title="norm", scale=alt.Scale(type="log", nice=False, padding=12),
                                           axis=alt.Axis(values=ticks))).properties(title="norms of patches"),
    )  # fmt: skip
    title = alt.Title(f"Outlier tokens: {name}", subtitle=f"n = {found.n} images")
    return Figure(alt.hconcat(*panels).properties(title=title), [*where, *held, *lengths])


def _rows(measures: dict[str, list[float]]) -> list[Row]:
    return [
        {"of": of, "layer": layer, "value": value}
        for of, values in measures.items()
        for layer, value in enumerate(values)
    ]


def _grid(rows: list[Row]) -> alt.Chart:
    return (
        chart_of(rows)
        .mark_rect()
        .encode(
            x=alt.X("column:O", title=None, axis=None),
            y=alt.Y("row:O", title=None, axis=None),
            color=alt.Color("share:Q", title="share of images", scale=alt.Scale(scheme=SEQUENTIAL, domain=[0, 1])),
            tooltip=["row:O", "column:O", alt.Tooltip("share:Q", format=".3f")],
        )
        .properties(width=HEIGHT, height=HEIGHT)
    )


def _lines(rows: list[Row], names: list[str], y: alt.Y) -> alt.Chart:
    colours = alt.Scale(domain=names, range=[GROUP_COLOURS["outlier"], GROUP_COLOURS["patch"]])
    return (
        chart_of(rows)
        .mark_line(point=True)
        .encode(
            x=alt.X("layer:Q", title=STATES, axis=alt.Axis(tickMinStep=1, format="d")),
            y=y,
            color=alt.Color("of:N", title=None, scale=colours),
            tooltip=["of:N", "layer:Q", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(width=HEIGHT, height=HEIGHT)
    )
