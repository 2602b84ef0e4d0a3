"""Charts of measures by layer: one line with a band per token group, solid for a model and dashed for a surrogate.

What the page lets a reader choose is a parameter of a chart: `group` (token group), `flow` (teacher, surrogate, both or
their difference) and `k` (number of blocks of the surrogate). A chart follows the choices whose columns its rows have:
`group`, `role` and `k`. A field `layer` or `depth` on the x axis is the depth of the model, on which the page draws its
ruler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from raptor.core.estimate import LayerEstimates
from raptor.render.charts import GROUP_COLOURS, HEIGHT, WIDTH, Figure, Row, chart_of
from raptor.render.panels import CUTS

STATES = "layer (0 is the embedding)"
NORM = "mean norm of a token"
STEPS = "layer (a step lies between two layers)"
BENDS = "layer (where two steps meet)"
AXES = {"states": STATES, "steps": STEPS, "bends": BENDS}  # title of the axis, by what a curve has numbers of
SHIFTS = {STEPS: 0.5, BENDS: 1.0}  # depth of the first value of a curve
TEACHER, SURROGATE, DIFFERENCE = "teacher", "surrogate", "difference"  # roles of the lines of a chart
DASHES = {TEACHER: [1, 0], SURROGATE: [5, 3], DIFFERENCE: [1, 2]}

GROUP = alt.param("group", value="all")
FLOW = alt.param("flow", value="both")
OF_GROUP = "group == 'all' || datum.group == group"
OF_FLOW = f"flow == 'both' ? datum.role != '{DIFFERENCE}' : datum.role == flow"
OF_K = f"datum.role == '{TEACHER}' || datum.k == k"


def rows_of(values: LayerEstimates, **more: Any) -> list[Row]:
    """Return one row per group and layer."""
    return [
        {**more, "group": group, "layer": layer, "value": mean, "low": values.low[group][layer],
         "high": values.high[group][layer]}
        for group, means in values.mean.items()
        for layer, mean in enumerate(means)
    ]  # fmt: skip


def rows_of_roles(teacher: LayerEstimates, surrogates: Mapping[int, LayerEstimates], **more: Any) -> list[Row]:
    """Return the rows of a model, of its surrogates by their number of blocks, and of surrogate minus model.

    Differences have no interval: both are measured on the same images, and their intervals are not independent.
    """
    rows = rows_of(teacher, role=TEACHER, k=None, **more)
    for k, values in surrogates.items():
        rows += rows_of(values, role=SURROGATE, k=k, **more)
        rows += [
            {**more, "role": DIFFERENCE, "k": k, "group": group, "layer": layer, "value": other - own, "low": None,
             "high": None}
            for group, means in teacher.mean.items()
            for layer, (own, other) in enumerate(zip(means, values.mean.get(group, ()), strict=False))
        ]  # fmt: skip
    return rows


def followed(rows: Sequence[Row]) -> tuple[list[str], list[Any]]:
    """Return the filters and parameters by which a chart of these rows follows what a reader of the page chooses."""
    filters, params = [], []
    if any("group" in row for row in rows):
        filters.append(OF_GROUP)
        params.append(GROUP)
    if any("role" in row for row in rows):
        filters.append(OF_FLOW)
        params.append(FLOW)
        ks = sorted({row["k"] for row in rows if row["k"] is not None})
        if ks:
            filters.append(OF_K)
            params.append(alt.param("k", value=ks[-1]))
    return filters, params


def following(chart: Any, rows: Sequence[Row]) -> Any:
    """Return a chart of some rows with the filters of `followed`; its parameters must still be added."""
    for condition in followed(rows)[0]:
        chart = chart.transform_filter(condition)
    return chart


def curves(
    rows: list[Row],
    x: str,
    y: str,
    colour: alt.Color,
    cuts: Sequence[float] = (),
    levels: Sequence[dict[str, Any]] = (),
    width: int = WIDTH,
    height: int = HEIGHT,
    ruler: bool = True,
) -> alt.LayerChart:
    """Draw lines with bands.

    Parameters
    ----------
    rows
        Data with `layer`, `value`, `low`, `high` and the field of the colour; with `role` and `k` for surrogates.
    x, y
        Titles of the axes; `STEPS` places each value between two layers, and `BENDS` the first one at layer 1.
    colour
        Colour encoding.
    cuts
        Positions of phase boundaries.
    levels
        Rows with `value` (and optionally `group`) for horizontal lines.
    width, height
        Size in pixels.
    ruler
        Whether the x axis is the depth of the model, which has the page's ruler.
    """
    shift = SHIFTS.get(x, 0.0)
    field = "depth" if ruler else "after"
    base = following(chart_of(rows), rows).transform_calculate(**{field: f"datum.layer + {shift}"})
    at = alt.X(f"{field}:Q", title=x, axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False, padding=8))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    roles = any("role" in row for row in rows)
    dash = alt.StrokeDash(
        "role:N", legend=None, scale=alt.Scale(domain=list(DASHES), range=[DASHES[role] for role in DASHES])
    )
    detail = {"strokeDash": dash} if roles else {}
    line = base.mark_line(point=True).encode(
        x=at, y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False)), color=colour, **detail,
        tooltip=[colour.shorthand, *(["role:N"] if roles else []), "layer:Q", *numbers],
    )  # fmt: skip
    part = {"detail": "role:N"} if roles else {}
    band = base.mark_area(opacity=0.18).encode(x=at, y=alt.Y("low:Q", title=y), y2="high:Q", color=colour, **part)
    layers: list[Any] = [band, line]
    if cuts:
        upright = chart_of([{"cut": cut} for cut in cuts])
        layers.insert(0, upright.mark_rule(strokeDash=[4, 3], color="#999999").encode(x="cut:Q").properties(name=CUTS))
    if levels:
        level = chart_of(list(levels))
        if any("group" in one for one in levels):
            level = level.transform_filter(OF_GROUP)
        if roles:
            level = level.transform_filter(f"flow != '{DIFFERENCE}'")
        own = {"color": colour} if "group" in levels[0] else {"color": alt.value("#777777")}
        layers.insert(0, level.mark_rule(strokeDash=[2, 3]).encode(y="value:Q", **own))
    return alt.layer(*layers).add_params(*followed(rows)[1]).properties(width=width, height=height)


def of_groups(groups: Sequence[str]) -> alt.Color:
    """Return the colour encoding of token groups."""
    scale = alt.Scale(domain=list(groups), range=[GROUP_COLOURS.get(group, "#777777") for group in groups])
    return alt.Color("group:N", title="tokens", scale=scale, legend=alt.Legend(symbolOpacity=1))


def by_layer(
    values: LayerEstimates,
    title: str,
    y: str,
    x: str = STATES,
    cuts: Sequence[float] = (),
    levels: Sequence[dict[str, Any]] = (),
    rows: list[Row] | None = None,
    ruler: bool = True,
) -> Figure:
    """Draw a measure for all token groups; parameters are those of `curves`, and the rows of surrogates, if any."""
    rows = rows_of(values) if rows is None else rows
    chart = curves(rows, x, y, of_groups(list(values.mean)), cuts, levels, ruler=ruler)
    return Figure(chart.properties(title=alt.Title(title, subtitle=about(values.n, values.seed))), rows)


def about(n: int, seed: int) -> str:
    """Return a subtitle with the number of images and the meaning of the bands."""
    return f"n = {n} images; band: 95% interval over images, seed {seed}"
