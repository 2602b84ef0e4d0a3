"""Figure 8: how trajectories bend back after a push, and how sensitive the end is to it."""

from __future__ import annotations

from typing import Any

import altair as alt

from raptor.dynamics.perturbation import SHOWN, Pushed
from raptor.reporting.drawing import SEQUENTIAL, Figure
from raptor.reporting.layer_figures import of_groups

PANEL = 240  # pixels


def correction(pushed: Pushed, title: str) -> Figure:
    """Draw the angle to the unpushed state by layer, one line a layer of the push."""
    panels, rows = [], []
    groups = [one for one, other in pushed.ends if one == other]
    for group in groups:
        angles = pushed.angles[group, group].mean()
        own = [
            {"group": group, "epsilon": epsilon, "pushed at": layer, "layer": layer + after,
             "angle": angles[i, j, after].item()}
            for i, layer in enumerate(pushed.layers)
            for j, epsilon in enumerate(pushed.epsilons)
            for after in range(pushed.depth - layer + 1)
        ]  # fmt: skip
        rows += own
        lines = alt.Chart(alt.Data(values=[row for row in own if row["epsilon"] == SHOWN])).mark_line()
        panels.append(
            lines.encode(
                x=alt.X("layer:Q", title="layer", axis=alt.Axis(tickMinStep=1, format="d")),
                y=alt.Y("angle:Q", title="angle to the unpushed state", scale=alt.Scale(type="log")),
                color=alt.Color("pushed at:Q", title="pushed at", scale=alt.Scale(scheme=SEQUENTIAL)),
                detail="pushed at:O",
                tooltip=["pushed at:Q", "layer:Q", alt.Tooltip("angle:Q", format=".4f")],
            ).properties(width=PANEL, height=PANEL, title=group)
        )
    return Figure(alt.hconcat(*panels).properties(title=alt.Title(title, subtitle=_about(pushed))), rows)


def sensitivity(pushed: Pushed, title: str) -> Figure:
    """Draw the deviation at the end by layer of the push, over its size and over the square of it."""
    rows: list[dict[str, Any]] = []
    for one, other in pushed.ends:
        found = pushed.sensitivity((one, other))
        rows += [
            {"group": one, "read": other, "layer": layer, "epsilon": epsilon,
             **{name: values[i, j].item() for name, values in found.items()}}
            for i, layer in enumerate(pushed.layers)
            for j, epsilon in enumerate(pushed.epsilons)
        ]  # fmt: skip
    groups = [one for one, other in pushed.ends if one == other]
    drawn = [row for row in rows if row["epsilon"] == SHOWN and row["group"] == row["read"]]
    base = alt.Chart(alt.Data(values=drawn)).encode(
        x=alt.X("layer:Q", title="layer of the push", axis=alt.Axis(tickMinStep=1, format="d")), color=of_groups(groups)
    )
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("over_epsilon", "low", "high", "over_square")]
    line = base.mark_line(point=True).encode(
        y=alt.Y("over_epsilon:Q", title="(1 - cosine at the end) / epsilon", scale=alt.Scale(type="log")),
        tooltip=["group:N", "layer:Q", *numbers],
    )
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="(1 - cosine at the end) / epsilon"), y2="high:Q")
    chart = (band + line).properties(width=PANEL + 120, height=PANEL, title=alt.Title(title, subtitle=_about(pushed)))
    return Figure(chart, rows)


def _about(pushed: Pushed) -> str:
    return (
        f"pushes of {SHOWN} of the norm, {pushed.draws} draws each (others in the table); n = {pushed.n} images; "
        f"bands: 95% over images, seed {pushed.seed}"
    )
