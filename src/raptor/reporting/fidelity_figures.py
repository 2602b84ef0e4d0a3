"""Figures of fidelity: how much of its teacher a surrogate explains, layer by layer."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.fidelity_by_layer import Fidelity
from raptor.phases import Phases
from raptor.reporting.drawing import GROUP_COLOURS, HEIGHT, PALETTE, WIDTH

STILL = "all, at rest"  # the surrogate that stands still at the input of each phase
STILL_COLOUR = "#777777"


def by_group(found: Fidelity, phases: Phases, title: str) -> alt.LayerChart:
    """Draw the R2 of each token group, with phase boundaries and the R2 of standing still for all tokens."""
    groups = [group for group in found.mean["r2"] if group != "all"]
    rows = [row for group in groups for row in _rows(found, "r2", group, group)]
    rows += _rows(found, "r2_identity", "all", STILL)
    colours = [*(GROUP_COLOURS[group] for group in groups), STILL_COLOUR]
    cuts = alt.Chart(alt.Data(values=[{"cut": span[-1] + 0.5} for span in phases.ranges[:-1]]))
    lines = _lines(rows, [*groups, STILL], colours, "tokens")
    return _finished(cuts.mark_rule(strokeDash=[4, 3], color="#999999").encode(x="cut:Q") + lines, found, title)


def side_by_side(found: dict[str, Fidelity], title: str) -> alt.LayerChart:
    """Draw the R2 of all tokens for several surrogates of one teacher, measured on the same images."""
    rows = [row for name, one in found.items() for row in _rows(one, "r2", "all", name)]
    lines = _lines(rows, list(found), list(PALETTE[: len(found)]), "surrogate")
    return _finished(lines, next(iter(found.values())), title)


def _rows(found: Fidelity, measure: str, group: str, name: str) -> list[dict[str, Any]]:
    ends = zip(*(values[measure][group] for values in (found.mean, found.low, found.high)), strict=True)
    return [
        {"name": name, "layer": layer, "value": value, "low": low, "high": high}
        for layer, (value, low, high) in enumerate(ends, 1)
    ]


def _lines(rows: list[dict[str, Any]], names: list[str], colours: list[str], legend: str) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=rows))
    x = alt.X(
        "layer:Q", title="layer", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=False, nice=False, padding=8)
    )
    colour = alt.Color(
        "name:N", title=legend, scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(symbolOpacity=1)
    )
    # Far below zero a surrogate is wrong in any case, and the rest could not be read.
    y = alt.Y("value:Q", title="R2", scale=alt.Scale(domainMin=-0.2, domainMax=1, clamp=True))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    band = base.mark_area(opacity=0.2, clip=True).encode(x=x, y=alt.Y("low:Q", title="R2"), y2="high:Q", color=colour)
    line = base.mark_line(point=True, clip=True).encode(
        x=x, y=y, color=colour, tooltip=["name:N", "layer:Q", *numbers],
        strokeDash=alt.condition(alt.datum.name == STILL, alt.value([4, 4]), alt.value([1, 0])),
    )  # fmt: skip
    return band + line


def _finished(chart: alt.LayerChart, found: Fidelity, title: str) -> alt.LayerChart:
    subtitle = f"n = {found.n} held-out images; band: 95% bootstrap interval over images, seed {found.seed}"
    return chart.properties(width=WIDTH, height=HEIGHT, title=alt.Title(title, subtitle=subtitle))
