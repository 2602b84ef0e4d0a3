"""Figures of measures by layer: one line a token group, with its band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from raptor.dynamics.by_layer import ByLayer
from raptor.reporting.drawing import GROUP_COLOURS, HEIGHT, PALETTE, WIDTH, Figure

STATES = "layer (0 is the embedding)"
NORM = "mean norm of a token"
STEPS = "step (l goes from layer l to l + 1)"


def rows_of(values: ByLayer, **more: Any) -> list[dict[str, Any]]:
    """Return one row a group and layer."""
    return [
        {**more, "group": group, "layer": layer, "value": mean, "low": values.low[group][layer],
         "high": values.high[group][layer]}
        for group, means in values.mean.items()
        for layer, mean in enumerate(means)
    ]  # fmt: skip


def curves(
    rows: list[dict[str, Any]],
    x: str,
    y: str,
    colour: alt.Color,
    cuts: Sequence[float] = (),
    levels: Sequence[dict[str, Any]] = (),
    width: int = WIDTH,
    height: int = HEIGHT,
) -> alt.LayerChart:
    """Draw lines with bands; upright lines at the cuts, level ones where rows of `value` (and `group`) say."""
    base = alt.Chart(alt.Data(values=rows))
    at = alt.X("layer:Q", title=x, axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False, padding=8))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    line = base.mark_line(point=True).encode(
        x=at, y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False)), color=colour,
        tooltip=[colour.shorthand, "layer:Q", *numbers],
    )  # fmt: skip
    band = base.mark_area(opacity=0.2).encode(x=at, y=alt.Y("low:Q", title=y), y2="high:Q", color=colour)
    layers: list[Any] = [band, line]
    if cuts:
        upright = alt.Chart(alt.Data(values=[{"cut": cut} for cut in cuts]))
        layers.insert(0, upright.mark_rule(strokeDash=[4, 3], color="#999999").encode(x="cut:Q"))
    if levels:
        level = alt.Chart(alt.Data(values=list(levels))).mark_rule(strokeDash=[2, 3])
        own = {"color": colour} if "group" in levels[0] else {"color": alt.value("#777777")}
        layers.insert(0, level.encode(y="value:Q", **own))
    return alt.layer(*layers).properties(width=width, height=height)


def of_groups(groups: Sequence[str]) -> alt.Color:
    """Return the colours of token groups."""
    scale = alt.Scale(domain=list(groups), range=[GROUP_COLOURS[group] for group in groups])
    return alt.Color("group:N", title="tokens", scale=scale, legend=alt.Legend(symbolOpacity=1))


def of_models(models: Sequence[str]) -> alt.Color:
    """Return the colours of models side by side."""
    scale = alt.Scale(domain=list(models), range=["#000000", *PALETTE][: len(models)])
    return alt.Color("model:N", title="model", scale=scale, legend=alt.Legend(symbolOpacity=1, labelLimit=400))


def by_layer(
    values: ByLayer,
    title: str,
    y: str,
    x: str = STATES,
    cuts: Sequence[float] = (),
    levels: Sequence[dict[str, Any]] = (),
) -> Figure:
    """Draw one measure of all token groups."""
    rows = rows_of(values)
    chart = curves(rows, x, y, of_groups(list(values.mean)), cuts, levels)
    return Figure(chart.properties(title=alt.Title(title, subtitle=about(values.n, values.seed))), rows)


def about(n: int, seed: int) -> str:
    """Say how many images there are and what bands are."""
    return f"n = {n} images; band: 95% interval over images, seed {seed}"
