"""Figure 10, right: spectra of the linear map; and the exponents of phases."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from raptor.dynamics.dmd import SINGULAR, Modes
from raptor.dynamics.expansion import Expansion
from raptor.phases import Phases
from raptor.reporting.drawing import HEIGHT, PALETTE, WIDTH, Figure
from raptor.reporting.layer_figures import of_groups

PANEL = 260  # pixels


def dmd(modes: dict[str, Modes], title: str, n: int) -> Figure:
    """Draw eigenvalues beside the unit circle, and the singular values of the states."""
    eigenvalues = [
        {"group": group, "what": "eigenvalue", "mode": i, "real": value.real.item(), "imaginary": value.imag.item(),
         "modulus": value.abs().item()}
        for group, one in modes.items()
        for i, value in enumerate(one.eigenvalues)
    ]  # fmt: skip
    singular = [
        {"group": group, "what": "singular value", "mode": i, "share": (value / one.singular[0]).item()}
        for group, one in modes.items()
        for i, value in enumerate(one.singular[:SINGULAR])
    ]
    colour = of_groups(list(modes))
    return Figure(
        alt.hconcat(_plane(eigenvalues, colour), _decay(singular, colour)).properties(
            title=alt.Title(title, subtitle=f"exact DMD of unit group means, pooled over one half of {n} images")
        ),
        [*eigenvalues, *singular],
    )


def _plane(rows: list[dict[str, Any]], colour: alt.Color) -> alt.LayerChart:
    turn = [2 * math.pi * i / 180 for i in range(181)]
    circle = [{"real": math.cos(angle), "imaginary": math.sin(angle), "order": angle} for angle in turn]
    far = 1.05 * max(1.0, *(row["modulus"] for row in rows))
    x = alt.X("real:Q", title="real part", scale=alt.Scale(domain=[-far, far], nice=False))
    y = alt.Y("imaginary:Q", title="imaginary part", scale=alt.Scale(domain=[-far, far], nice=False))
    line = alt.Chart(alt.Data(values=circle)).mark_line(strokeDash=[4, 3], color="#777777", strokeWidth=1)
    points = alt.Chart(alt.Data(values=rows)).mark_circle(size=60, opacity=0.8)
    shown = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("real", "imaginary", "modulus")]
    return (
        line.encode(x=x, y=y, order="order:Q") + points.encode(x=x, y=y, color=colour, tooltip=["group:N", *shown])
    ).properties(width=PANEL, height=PANEL, title="eigenvalues")


def _decay(rows: list[dict[str, Any]], colour: alt.Color) -> alt.Chart:
    above = [row for row in rows if row["share"] > 1e-8]  # below is rounding
    return (
        alt.Chart(alt.Data(values=above))
        .mark_line(point=True)
        .encode(
            x=alt.X("mode:Q", title="mode", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("share:Q", title="singular value / largest", scale=alt.Scale(type="log")),
            color=colour,
            tooltip=["group:N", "mode:Q", alt.Tooltip("share:Q", format=".3g")],
        )
        .properties(width=PANEL, height=PANEL, title="singular values")
    )


def expansion(found: Expansion, phases: Phases, title: str) -> Figure:
    """Draw the leading exponents of each phase."""
    names = [f"layers {span[0]} to {span[-1]}" for span in phases.ranges]
    rows = [
        {"phase": name, "number": i + 1, "exponent": value, "low": low, "high": high}
        for name, *values in zip(names, found.mean, found.low, found.high, strict=True)
        for i, (value, low, high) in enumerate(zip(*values, strict=True))
    ]
    colour = alt.Color("phase:N", title="phase", sort=names, legend=alt.Legend(symbolOpacity=1), scale=alt.Scale(
        domain=names, range=[PALETTE[i % len(PALETTE)] for i in range(len(names))]))  # fmt: skip
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("number:Q", title="exponent, largest first", axis=alt.Axis(tickMinStep=1, format="d")), color=colour
    )
    numbers = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("exponent", "low", "high")]
    line = base.mark_line(point=True).encode(
        y=alt.Y("exponent:Q", title="growth of small angles a layer (log)"), tooltip=["phase:N", *numbers]
    )
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    none = alt.Chart(alt.Data(values=[{"exponent": 0}])).mark_rule(strokeDash=[4, 3], color="#777777")
    chart = (none.encode(y="exponent:Q") + band + line).properties(
        width=WIDTH, height=HEIGHT, title=alt.Title(title, subtitle=f"n = {found.n} images; band: 95% over images")
    )
    return Figure(chart, rows)
