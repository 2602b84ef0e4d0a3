"""Figures of fidelity: how much of its teacher a surrogate explains, layer by layer."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.fidelity_by_layer import Fidelity
from raptor.phases import Phases
from raptor.reporting.drawing import GROUP_COLOURS, HEIGHT, WIDTH

STILL = "all, at rest"  # the surrogate that stands still at the input of each phase
OTHER = "all, another image"  # the squared correlation with a token of another image
STILL_COLOUR = "#777777"


def by_group(found: Fidelity, phases: Phases, title: str) -> alt.HConcatChart:
    """Draw both measures of each token group with phase boundaries, each with the least that it must beat."""
    groups = [group for group in found.mean["r2"] if group != "all"]
    colours = [*(GROUP_COLOURS[group] for group in groups), STILL_COLOUR]
    cuts = alt.Chart(alt.Data(values=[{"cut": layer + 0.5} for layer in phases.boundaries]))
    panels = []
    for measure, least, name in (("r2", "r2_identity", STILL), ("pearson2", "pearson2_shuffled", OTHER)):
        rows = [row for group in groups for row in _rows(found, measure, group, group)]
        rows += _rows(found, least, "all", name)
        lines = _lines(rows, [*groups, name], colours, "tokens", "R2" if measure == "r2" else measure)
        rule = cuts.mark_rule(strokeDash=[4, 3], color="#999999").encode(x="cut:Q")
        panels.append(alt.layer(rule, lines).properties(width=WIDTH, height=HEIGHT))
    return alt.hconcat(*panels).resolve_scale(color="independent").properties(title=_title(found, title))


def _rows(found: Fidelity, measure: str, group: str, name: str) -> list[dict[str, Any]]:
    ends = zip(*(values[measure][group] for values in (found.mean, found.low, found.high)), strict=True)
    return [
        {"name": name, "layer": layer, "value": value, "low": low, "high": high}
        for layer, (value, low, high) in enumerate(ends, 1)
    ]


def _lines(
    rows: list[dict[str, Any]], names: list[str], colours: list[str], legend: str, measure: str
) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=rows))
    x = alt.X(
        "layer:Q", title="layer", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=False, nice=False, padding=8)
    )
    colour = alt.Color(
        "name:N", title=legend, scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(symbolOpacity=1)
    )
    # Far below zero a surrogate is wrong in any case, and the rest could not be read.
    y = alt.Y("value:Q", title=measure, scale=alt.Scale(domainMin=-0.2, domainMax=1, clamp=True))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    band = base.mark_area(opacity=0.2, clip=True).encode(
        x=x, y=alt.Y("low:Q", title=measure), y2="high:Q", color=colour
    )
    line = base.mark_line(point=True, clip=True).encode(
        x=x, y=y, color=colour, tooltip=["name:N", "layer:Q", *numbers],
        strokeDash=alt.condition(
            f"datum.name == '{STILL}' || datum.name == '{OTHER}'", alt.value([4, 4]), alt.value([1, 0])
        ),
    )  # fmt: skip
    return band + line


def _title(found: Fidelity, title: str) -> alt.Title:
    subtitle = f"n = {found.n} images; band: 95% bootstrap interval over images, seed {found.seed}"
    return alt.Title(title, subtitle=subtitle)
