"""Figures of phases, one function each: the paper's Figures 1 and 2, and what it does not draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from raptor.phases import Phases
from raptor.reporting.drawing import DIVERGING, HEIGHT, SEQUENTIAL, WIDTH
from raptor.selection import FoundPhases
from raptor.structure import Description

CELLS = 300  # pixels of a matrix
SMALL_CELLS = 180
CUT = "#E69F00"
KINDS = ["drift", "paced drift", "blocks"]


def cells(matrix: NDArray[Any], first: int, **more: Any) -> list[dict[str, Any]]:
    """Return a row for each pair of layers."""
    return [
        {"row": first + i, "column": first + j, "value": round(float(value), 5), **more}
        for i, line in enumerate(matrix)
        for j, value in enumerate(line)
    ]


def cuts(partitions: dict[int, Phases], last: int, group: str = "") -> tuple[alt.Chart, alt.Chart]:
    """Draw lines at the boundaries of each partition, upright and level."""
    rows = [
        {"k": k, "group": group, "at": boundary + 0.5, "from": 0.5, "to": last + 0.5, "phases": str(phases)}
        for k, phases in partitions.items()
        for boundary in phases.boundaries
    ]
    lines = alt.Chart(alt.Data(values=rows)).mark_rule(color=CUT, strokeWidth=2.5).encode(tooltip="phases:N")
    return lines.encode(x="at:Q", y="from:Q", y2="to:Q"), lines.encode(y="at:Q", x="from:Q", x2="to:Q")


def heat(rows: list[dict[str, Any]], first: int, last: int, size: int, colour: alt.Color) -> alt.Chart:
    """Draw a matrix of layers, the first one at the top left."""
    ticks = alt.Axis(values=list(range(first, last + 1, max(1, (last - first) // 12))), grid=False, format="d")
    scale = {"domain": [first - 0.5, last + 0.5], "nice": False, "padding": 0}
    return (
        alt.Chart(alt.Data(values=rows))
        .transform_calculate(
            left="datum.column - 0.5", right="datum.column + 0.5", top="datum.row - 0.5", bottom="datum.row + 0.5"
        )
        .mark_rect()
        .encode(
            x=alt.X("left:Q", title="layer", axis=ticks, scale=alt.Scale(**scale)),
            x2="right:Q",
            y=alt.Y("top:Q", title="layer", axis=ticks, scale=alt.Scale(**scale, reverse=True)),
            y2="bottom:Q",
            color=colour,
            tooltip=["row:Q", "column:Q", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(width=size, height=size)
    )


def similarity(found: FoundPhases, title: str) -> alt.LayerChart:
    """Draw S with the boundaries of k phases; on the page a slider moves k."""
    partitions = {k: phases for k, (phases, _) in found.by_k.items()}
    first, matrix = _whole(found)
    last = first + len(matrix) - 1
    low = min(0.0, float(np.floor(matrix.min() * 10) / 10))
    colour = alt.Color(
        "value:Q",
        title="cosine",
        scale=alt.Scale(scheme=SEQUENTIAL, domain=[low, 1.0]),
        legend=alt.Legend(format=".1f"),
    )
    slider = alt.param(
        "k",
        value=found.k,
        bind=alt.binding_range(min=min(partitions), max=max(partitions), step=1, name="number of phases "),
    )
    upright, level = (line.transform_filter("datum.k == k") for line in cuts(partitions, last))
    drawn = heat(cells(matrix, first), first, last, CELLS, colour)
    return (drawn + upright + level).add_params(slider).properties(title=alt.Title(title, subtitle=_about(found)))


def _whole(found: FoundPhases) -> tuple[int, NDArray[Any]]:
    """Return the first layer and the matrix of all layers that were measured, the embedding included."""
    if found.measured is None:
        return 1, found.similarity
    return found.measured.first_layer, found.measured.matrix(found.group)


def _about(found: FoundPhases) -> str:
    measured = f"tokens: {found.group}; n = {found.n} images" if found.n else "the matrix as given"
    return f"{measured}; phases {found.phases}"


def _name(description: Description) -> str:
    if description.kind == "blocks":
        return f"{description.detail} block" + ("" if description.detail == 1 else "s")
    return description.kind if description.detail is None else f"{description.kind} ({description.detail})"


def shown(found: FoundPhases) -> list[Description]:
    """Return the descriptions worth a picture: drift, the better clock, and as many blocks as there are phases."""
    blocks = [one for one in found.structure.descriptions if (one.kind, one.detail) == ("blocks", found.k)]
    return [found.structure.of_kind("drift")[0], found.structure.of_kind("paced drift")[0], *blocks]


def remains(found: FoundPhases, title: str) -> alt.HConcatChart:
    """Draw what is left of S after each description: white where the description says all there is."""
    layers = len(found.similarity)
    left = {_name(one): found.similarity - one.fitted for one in shown(found)}
    most = max(float(np.abs(matrix).max()) for matrix in left.values())
    colour = alt.Color(
        "value:Q", title="S - fit", scale=alt.Scale(scheme=DIVERGING, domain=[-most, most], reverse=True)
    )
    charts = [
        heat(cells(left[_name(one)], 1), 1, layers, SMALL_CELLS, colour).properties(
            title=alt.Title(_name(one), subtitle=f"{one.parameters} parameters, residual {one.residual:.3f}")
        )
        for one in shown(found)
    ]
    return alt.hconcat(*charts).properties(title=title)


def descriptions(found: FoundPhases, title: str) -> alt.LayerChart:
    """Draw the error of every description against its number of parameters, on images held out where there are any."""
    rows = []
    for one in found.structure.descriptions:
        low, high = one.held_out_ci or (one.residual, one.residual)
        error = one.residual if one.held_out is None else one.held_out
        rows.append({"kind": one.kind, "name": _name(one), "parameters": one.parameters, "error": error, "low": low,
                     "high": high})  # fmt: skip
    held = found.structure.floor is not None
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("parameters:Q", title="parameters", scale=alt.Scale(padding=12)),
        color=alt.Color("kind:N", title="description", scale=alt.Scale(
            domain=KINDS, range=["#0072B2", "#009E73", "#D55E00"])),
    )  # fmt: skip
    y = alt.Y("error:Q", title="error on held-out images" if held else "residual", scale=alt.Scale(zero=True))
    errors = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("error", "low", "high")]
    points = base.mark_point(size=70, filled=True).encode(
        y=y, shape=alt.Shape("kind:N", title="description", scale=alt.Scale(domain=KINDS)),
        tooltip=["name:N", "parameters:Q", *errors],
    )  # fmt: skip
    bars = base.mark_rule().encode(y="low:Q", y2="high:Q")
    labels = base.mark_text(align="left", dx=8, dy=-6, fontSize=10).encode(y="error:Q", text="name:N")
    subtitle = "root mean square over pairs of layers"
    subtitle += "; bars: 95% over folds" if held else f"; {found.structure.why_not_held_out}"
    return (bars + points + labels).properties(width=WIDTH, height=HEIGHT, title=alt.Title(title, subtitle=subtitle))


def scores(found: FoundPhases, title: str) -> alt.LayerChart:
    """Draw the score of the best partition by k, and mark the k that was taken, the useful and the suggested one."""
    roles = {found.k: ["taken"]}
    roles.setdefault(found.useful_k, []).append("useful")
    roles.setdefault(found.suggested_k, []).append("suggested")
    rows = [
        {"k": k, "score": score, "phases": str(phases), "role": ", ".join(roles.get(k, []))}
        for k, (phases, score) in found.by_k.items()
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("k:O", title="number of phases k", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("score:Q", title="score", scale=alt.Scale(zero=False, padding=18)),
        tooltip=["k:O", "phases:N", alt.Tooltip("score:Q", format=".4f")],
    )
    named = base.mark_text(dy=-14, fontSize=10).encode(text="role:N")
    cut = base.mark_text(dy=16, fontSize=9, color="#666").encode(text="phases:N")
    line = base.mark_line(color="#0072B2") + base.mark_circle(size=60, color="#0072B2")
    subtitle = "best partition of each k; a higher score alone is no evidence of phases"
    return (line + named + cut).properties(width=WIDTH + 120, height=HEIGHT, title=alt.Title(title, subtitle=subtitle))


def certainty(found: FoundPhases, title: str) -> alt.LayerChart:
    """Draw how often each boundary comes out when images are resampled."""
    assert found.bootstrap is not None
    frequency = found.bootstrap.boundary_frequency
    rows = [
        {"boundary": f"{layer}|{layer + 1}", "order": layer, "frequency": frequency.get(layer, 0.0),
         "taken": "taken" if layer in found.phases.boundaries else "another"}
        for layer in range(1, len(found.similarity))
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("boundary:N", sort=alt.SortField("order"), title="boundary between layers", axis=alt.Axis(labelAngle=0))
    )
    bars = base.mark_bar().encode(
        y=alt.Y("frequency:Q", title="share of resamples", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("taken:N", title="in the best partition",
                        scale=alt.Scale(domain=["taken", "another"], range=[CUT, "#999999"])),
        tooltip=["boundary:N", alt.Tooltip("frequency:Q", format=".3f")],
    )  # fmt: skip
    runner = found.segmentation.runner_up
    subtitle = f"k = {found.k}, {found.bootstrap.n} resamples of {found.n} images, seed {found.seed}"
    if runner is not None:
        subtitle += f"; runner-up {runner[0]} is {found.segmentation.gap:.4f} behind"
    return alt.layer(bars).properties(width=WIDTH, height=HEIGHT, title=alt.Title(title, subtitle=subtitle))


def gallery(models: list[tuple[str, FoundPhases]], title: str) -> alt.ConcatChart:
    """Draw several models side by side (the paper's Figure 1), each with its own cuts."""
    panels = [Panel(name, _about(found), *_whole(found), found.phases) for name, found in models]
    return side_by_side(panels).properties(title=title)


@dataclass(frozen=True)
class Panel:
    """A matrix of layers from the first on, with its phases."""

    title: str
    subtitle: str
    first: int
    matrix: NDArray[Any]
    phases: Phases


def side_by_side(panels: list[Panel], columns: int = 3) -> alt.ConcatChart:
    """Draw matrices with their cuts, all in the same colours."""
    low = min(0.0, *(float(panel.matrix.min()) for panel in panels))
    colour = alt.Color("value:Q", title="cosine", scale=alt.Scale(scheme=SEQUENTIAL, domain=[low, 1.0]))
    charts = []
    for panel in panels:
        last = panel.first + len(panel.matrix) - 1
        drawn = heat(cells(panel.matrix, panel.first), panel.first, last, SMALL_CELLS, colour)
        lines = cuts({panel.phases.k: panel.phases}, last)
        charts.append(alt.layer(drawn, *lines).properties(title=alt.Title(panel.title, subtitle=panel.subtitle)))
    return alt.concat(*charts, columns=columns)
