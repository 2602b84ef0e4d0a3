"""Charts of measures by layer: one line with a band per token group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from raptor.core.estimate import LayerEstimates
from raptor.render.charts import GROUP_COLOURS, HEIGHT, PALETTE, WIDTH, Figure, Row, chart_of

STATES = "layer (0 is the embedding)"
NORM = "mean norm of a token"
STEPS = "step (step l goes from layer l to layer l + 1)"
AXES = {"states": STATES, "steps": STEPS}  # title of the axis, by what a curve has numbers of


def rows_of(values: LayerEstimates, **more: Any) -> list[Row]:
    """Return one row per group and layer."""
    return [
        {**more, "group": group, "layer": layer, "value": mean, "low": values.low[group][layer],
         "high": values.high[group][layer]}
        for group, means in values.mean.items()
        for layer, mean in enumerate(means)
    ]  # fmt: skip


def curves(
    rows: list[Row],
    x: str,
    y: str,
    colour: alt.Color,
    cuts: Sequence[float] = (),
    levels: Sequence[dict[str, Any]] = (),
    width: int = WIDTH,
    height: int = HEIGHT,
) -> alt.LayerChart:
    """Draw lines with bands.

    Parameters
    ----------
    rows
        Data with `layer`, `value`, `low`, `high` and the field of the colour.
    x, y
        Titles of the axes.
    colour
        Colour encoding.
    cuts
        Positions of vertical lines.
    levels
        Rows with `value` (and optionally `group`) for horizontal lines.
    width, height
        Size in pixels.
    """
    base = chart_of(rows)
    at = alt.X("layer:Q", title=x, axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False, padding=8))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    line = base.mark_line(point=True).encode(
        x=at, y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False)), color=colour,
        tooltip=[colour.shorthand, "layer:Q", *numbers],
    )  # fmt: skip
    band = base.mark_area(opacity=0.2).encode(x=at, y=alt.Y("low:Q", title=y), y2="high:Q", color=colour)
    layers: list[Any] = [band, line]
    if cuts:
        upright = chart_of([{"cut": cut} for cut in cuts])
        layers.insert(0, upright.mark_rule(strokeDash=[4, 3], color="#999999").encode(x="cut:Q"))
    if levels:
        level = chart_of(list(levels)).mark_rule(strokeDash=[2, 3])
        own = {"color": colour} if "group" in levels[0] else {"color": alt.value("#777777")}
        layers.insert(0, level.encode(y="value:Q", **own))
    return alt.layer(*layers).properties(width=width, height=height)


def of_groups(groups: Sequence[str]) -> alt.Color:
    """Return the colour encoding of token groups."""
    scale = alt.Scale(domain=list(groups), range=[GROUP_COLOURS[group] for group in groups])
    return alt.Color("group:N", title="tokens", scale=scale, legend=alt.Legend(symbolOpacity=1))


def of_models(models: Sequence[str]) -> alt.Color:
    """Return the colour encoding of several models."""
    scale = alt.Scale(domain=list(models), range=["#000000", *PALETTE][: len(models)])
    return alt.Color("model:N", title="model", scale=scale, legend=alt.Legend(symbolOpacity=1, labelLimit=400))


def by_layer(
    values: LayerEstimates,
    title: str,
    y: str,
    x: str = STATES,
    cuts: Sequence[float] = (),
    levels: Sequence[dict[str, Any]] = (),
) -> Figure:
    """Draw a measure for all token groups; parameters are those of `curves`."""
    rows = rows_of(values)
    chart = curves(rows, x, y, of_groups(list(values.mean)), cuts, levels)
    return Figure(chart.properties(title=alt.Title(title, subtitle=about(values.n, values.seed))), rows)


def about(n: int, seed: int) -> str:
    """Return a subtitle with the number of images and the meaning of the bands."""
    return f"n = {n} images; band: 95% interval over images, seed {seed}"
