"""Appendix D of the paper: the spectrum of the linear map."""

from __future__ import annotations

import math

import altair as alt

from raptor.dynamics.curves.overlay import surrogates_of
from raptor.dynamics.result import DynamicsResult, ModelDynamics
from raptor.render.charts import Figure, Row, chart_of, log_ticks
from raptor.render.layer_charts import DASHES, SURROGATE, TEACHER, followed, following, of_groups
from raptor.render.registry import figure

PANEL = 260  # pixels


@figure(
    "dynamics",
    "dmd",
    "dynamics",
    "Dynamic mode decomposition (DMD): for each group of tokens, one linear map predicts the mean token of each "
    "layer from that of the layer before. First: its eigenvalues; modes inside the unit circle decay with depth, "
    "modes on it persist; circles are the model, diamonds the surrogate. Second: singular values of the tokens that it "
    "is fitted to.",
    "appendix D",
    wide=True,
    chapter="linearise",
    title="Is depth nearly a linear map?",
)
def dmd(result: DynamicsResult, name: str) -> Figure:
    """Draw eigenvalues with the unit circle, and the singular values of the states."""
    flows: list[tuple[str, int | None, ModelDynamics]] = [(TEACHER, None, result)]
    flows += [(SURROGATE, k, model) for k, model in surrogates_of(result).items()]
    eigenvalues = [
        {"group": group, "role": role, "k": k, "what": "eigenvalue", "mode": i, "real": value.real,
         "imaginary": value.imag, "modulus": abs(value)}
        for role, k, model in flows
        for group, one in model.dmd.items()
        for i, value in enumerate(one.eigenvalues)
    ]  # fmt: skip
    singular = [
        {"group": group, "role": role, "k": k, "what": "singular value", "mode": i, "share": value / one.singular[0]}
        for role, k, model in flows
        for group, one in model.dmd.items()
        for i, value in enumerate(one.singular)
    ]
    colour = of_groups(list(result.dmd))
    subtitle = f"mean token of each group, normalised; fitted to half of {result.n} images"
    title = alt.Title(f"Linear model of depth: {name}", subtitle=subtitle)
    chart = alt.hconcat(_plane(eigenvalues, colour), _decay(singular, colour)).properties(title=title)
    return Figure(chart, [*eigenvalues, *singular])


def _plane(rows: list[Row], colour: alt.Color) -> alt.LayerChart:
    turn = [2 * math.pi * i / 180 for i in range(181)]
    circle = [{"real": math.cos(angle), "imaginary": math.sin(angle), "order": angle} for angle in turn]
    far = 1.05 * max(1.0, *(row["modulus"] for row in rows))
    x = alt.X("real:Q", title="real part", scale=alt.Scale(domain=[-far, far], nice=False))
    y = alt.Y("imaginary:Q", title="imaginary part", scale=alt.Scale(domain=[-far, far], nice=False))
    line = chart_of(circle).mark_line(strokeDash=[4, 3], color="#777777", strokeWidth=1)
    points = following(chart_of(rows), rows).mark_point(size=70, opacity=0.9)
    shape = alt.Shape("role:N", legend=None, scale=alt.Scale(domain=[TEACHER, SURROGATE], range=["circle", "diamond"]))
    shown = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("real", "imaginary", "modulus")]
    return (
        (
            line.encode(x=x, y=y, order="order:Q")
            + points.encode(x=x, y=y, color=colour, shape=shape, tooltip=["group:N", "role:N", *shown])
        )
        .add_params(*followed(rows)[1])
        .properties(width=PANEL, height=PANEL, title="eigenvalues")
    )


def _decay(rows: list[Row], colour: alt.Color) -> alt.Chart:
    above = [row for row in rows if row["share"] > 1e-8]  # below is rounding
    shares = alt.Axis(values=log_ticks(row["share"] for row in above))
    return (
        following(chart_of(above), above)
        .mark_line(point=True)
        .encode(
            x=alt.X("mode:Q", title="mode", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("share:Q", title="singular value / largest", scale=alt.Scale(type="log", nice=False), axis=shares),
            color=colour,
            strokeDash=alt.StrokeDash(
                "role:N", legend=None, scale=alt.Scale(domain=list(DASHES), range=list(DASHES.values()))
            ),
            tooltip=["group:N", "role:N", "mode:Q", alt.Tooltip("share:Q", format=".3g")],
        )
        .add_params(*followed(above)[1])
        .properties(width=PANEL, height=PANEL, title="singular values")
    )
