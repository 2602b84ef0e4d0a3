"""Figure 8 of the paper: how trajectories return after a perturbation, and how sensitive the last layer is to it."""

from __future__ import annotations

import math

import altair as alt

from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.overlay import overlaid_by
from raptor.dynamics.perturbations.sensitivity import SHOWN
from raptor.dynamics.result import DynamicsResult, ModelDynamics
from raptor.render.charts import GROUP_COLOURS, SEQUENTIAL, Figure, Row, chart_of, log_ticks
from raptor.render.layer_charts import DIFFERENCE, OF_GROUP, curves, of_groups
from raptor.render.registry import figure

PANEL = 240  # pixels
MOST_LINES = 5  # perturbed layers that a panel shows; with all of them, lines overlap


@figure(
    "dynamics",
    "correction",
    "dynamics",
    "Solid: angle between perturbed and unperturbed tokens. Dashed: the angle if every layer passed the perturbation "
    "on unchanged; it falls because norms grow. Where the solid line is below the dashed one, layers correct the "
    "perturbation. Lines are for some of the perturbed layers; the csv file has all.",
    "Figure 8, left",
    wide=True,
    chapter="correct",
    title="Do later layers correct a perturbation?",
)
def correction(result: DynamicsResult, name: str) -> Figure | None:
    """Draw the angle to the unperturbed state by layer, one line per perturbed layer."""
    rows: list[Row] = []
    applied = result.correction
    for group, one in applied.by_group.items():
        if one.angle is None:  # result.json does not have it
            return None
        depth = one.angle.shape[-1] - 1
        rows += [
            {"group": group, "epsilon": epsilon, "pushed at": layer, "layer": layer + after,
             "angle": one.angle[i, j, after].item(),
             "passive": None if one.passive_angle is None else one.passive_angle[i, j, after].item()}
            for i, layer in enumerate(applied.layers)
            for j, epsilon in enumerate(applied.epsilons)
            for after in range(depth - layer + 1)
        ]  # fmt: skip
    shown = set(applied.layers[:: max(1, math.ceil(len(applied.layers) / MOST_LINES))])
    lines = [row for row in rows if row["epsilon"] == SHOWN and row["pushed at"] in shown]
    panels = [_angles([row for row in lines if row["group"] == group], group, lines) for group in applied.by_group]
    title = alt.Title(f"Return after a perturbation: {name}", subtitle=f"{_about(result)}, seed {result.seed}")
    return Figure(alt.hconcat(*panels).properties(title=title), rows)


def _angles(rows: list[Row], group: str, everything: list[Row]) -> alt.LayerChart:
    """Return the panel of a token group, with the scales of all panels."""
    angles = [row[key] for row in everything for key in ("angle", "passive") if (row[key] or 0) > 0]
    layers = [row["pushed at"] for row in everything]
    domain = [min(angles) / 1.2, max(angles) * 1.2] if angles else []
    scale = alt.Scale(type="log", domain=domain or alt.Undefined, nice=False)
    angle = {"title": "angle (radians)", "scale": scale, "axis": alt.Axis(values=log_ticks(domain))}
    numbers = [alt.Tooltip(f"{column}:Q", format=".4f") for column in ("angle", "passive")]
    colours = alt.Scale(scheme=SEQUENTIAL, domain=[min(layers, default=0), max(layers, default=1)])
    lines = chart_of(rows).encode(
        x=alt.X("layer:Q", title="layer", axis=alt.Axis(tickMinStep=1, format="d")),
        color=alt.Color("pushed at:Q", title="perturbed layer", scale=colours),
        detail="pushed at:O",
        tooltip=["pushed at:Q", "layer:Q", *numbers],
    )
    drawn = lines.mark_line().encode(y=alt.Y("angle:Q", **angle))
    carried = lines.mark_line(strokeDash=[3, 3], strokeWidth=1).encode(y=alt.Y("passive:Q", **angle))
    return (carried + drawn).properties(width=PANEL, height=PANEL, title=group)


@figure(
    "dynamics",
    "sensitivity",
    "dynamics",
    "Change of the last layer after a perturbation at an earlier layer, divided by the size epsilon of the "
    "perturbation. Dotted: if every layer passed the perturbation on unchanged.",
    "Figure 8, right",
    wide=True,
    chapter="correct",
    title="Which layers does the output depend on?",
)
def sensitivity(result: DynamicsResult, name: str) -> Figure:
    """Draw the deviation at the last layer by perturbed layer, over the size of the perturbation."""
    rows: list[Row] = []
    applied = result.sensitivity
    for pair, one in applied.by_pair.items():
        perturbed, _, read = pair.partition("->")
        rows += [
            {"group": perturbed, "read": read, "layer": layer, "epsilon": epsilon,
             "over_epsilon": one.over_epsilon.value[i][j], "low": one.over_epsilon.low[i][j],
             "high": one.over_epsilon.high[i][j], "over_square": one.over_square[i][j],
             "passive": None if one.passive is None else one.passive[i][j]}
            for i, layer in enumerate(applied.layers)
            for j, epsilon in enumerate(applied.epsilons)
        ]  # fmt: skip
    drawn = [{**row, "layer": applied.layers[row["layer"]]} for row in overlaid_by(result, _shown)]
    y = "(1 - cosine at the last layer) / epsilon"
    chart = curves(drawn, "perturbed layer", y, of_groups(list(result.correction.by_group)))
    passive: list[Row] = [row for row in rows if row["epsilon"] == SHOWN and row["group"] == row["read"]]
    carried = (
        chart_of(passive)
        .transform_filter(OF_GROUP)
        .transform_filter(f"flow != '{DIFFERENCE}'")
        .transform_calculate(depth="datum.layer")
        .mark_line(strokeDash=[2, 3])
        .encode(x="depth:Q", y=alt.Y("passive:Q", title=y), color=of_groups(list(result.correction.by_group)))
    )
    about = f"{_about(result)}; bands: 95% intervals over images, seed {result.seed}"
    title = alt.Title(f"Sensitivity: {name}", subtitle=about)
    return Figure(alt.layer(chart, carried).properties(title=title), rows)


def _shown(model: ModelDynamics) -> LayerEstimates:
    """Return the deviation over epsilon of each perturbed group at the size that figures show, by perturbed layer."""
    applied = model.sensitivity
    column = applied.epsilons.index(SHOWN)
    found = {
        pair.partition("->")[0]: one.over_epsilon
        for pair, one in applied.by_pair.items()
        if len(set(pair.split("->"))) == 1
    }
    ends = {name: {group: [row[column] for row in getattr(one, name)] for group, one in found.items()}
            for name in ("value", "low", "high")}  # fmt: skip
    return LayerEstimates(ends["value"], ends["low"], ends["high"], applied.images, model.seed)


@figure(
    "dynamics",
    "mixing",
    "dynamics",
    "The tokens of two images are averaged at a layer, with weights w and 1 - w, and the later layers are applied. The "
    "slope is how fast the output moves from that of one image to that of the other as w passes 1/2. It is 1 for a "
    "linear map, and larger if the two images lie in different basins of attraction. Dashed: the slope at "
    "the last layer; it is not 1, because the norms of mixtures are matched to those of the images.",
    chapter="converge",
    title="Does each image have its own basin?",
)
def mixing(result: DynamicsResult, name: str) -> Figure | None:
    """Draw the slope at equal shares by the layer at which images are mixed."""
    found = result.mixing
    if found is None:
        return None
    rows: list[Row] = [
        {"layer": layer, "slope": value, "low": low, "high": high}
        for layer, value, low, high in zip(
            found.layers, found.slope.value, found.slope.low, found.slope.high, strict=True
        )
    ]
    base = chart_of(rows).encode(
        x=alt.X("layer:Q", title="layer at which two images are mixed", axis=alt.Axis(tickMinStep=1, format="d"))
    )
    title = f"slope at w = 1/2 ({found.group})"
    colour = GROUP_COLOURS.get(found.group, GROUP_COLOURS["cls"])
    line = base.mark_line(point=alt.OverlayMarkDef(color=colour), color=colour).encode(
        y=alt.Y("slope:Q", title=title),
        tooltip=["layer:Q", *(alt.Tooltip(f"{column}:Q", format=".3f") for column in ("slope", "low", "high"))],
    )
    band = base.mark_area(opacity=0.2, color=colour).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    level = chart_of([{"slope": rows[-1]["slope"]}]).mark_rule(strokeDash=[4, 3], color="#777777")
    about = alt.Title(
        f"Mixtures of two images: {name}",
        subtitle=f"n = {2 * found.pairs} images in {found.pairs} pairs; band: 95% interval over pairs",
    )
    chart = (level.encode(y="slope:Q") + band + line).properties(width=PANEL + 120, height=PANEL, title=about)
    return Figure(chart, rows)


def _about(result: DynamicsResult) -> str:
    applied = result.sensitivity
    draws = f"{applied.draws} draw{'s' * (applied.draws > 1)} each"
    return f"perturbations of {SHOWN} of the norm, {draws}; n = {applied.images} images"
