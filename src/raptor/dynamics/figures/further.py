"""Figures beyond the paper: basins, local expansion, and iteration of the last step."""

from __future__ import annotations

from functools import partial

import altair as alt

from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.overlay import overlaid_by
from raptor.dynamics.curves.registry import CURVES
from raptor.dynamics.result import DynamicsResult, ModelDynamics
from raptor.render.charts import HEIGHT, PALETTE, WIDTH, Figure, chart_of
from raptor.render.layer_charts import STATES, about, by_layer, curves, of_groups
from raptor.render.registry import figure
from raptor.render.tables import stored_note

PANEL = 240  # pixels
BASINS = {
    "within": "angle to its own class (radians)",
    "between": "angle to other classes (radians)",
    "nearest": "share nearest to its own class",
}


@figure(
    "dynamics",
    "basins",
    "dynamics",
    "Angle between the direction of an image's tokens and the mean direction of its class (left) or of other classes "
    "(middle), and the share of images that are nearest to the mean of their own class (right).",
    wide=True,
    order=40,
    chapter="converge",
    title="Do images of one class end together?",
)
def basins(result: DynamicsResult, name: str) -> Figure | None:
    """Draw angles within and between classes, and the share of images nearest to their own class."""
    if not result.basins:
        return None
    panels, rows = [], []
    n = next(iter(result.basins.values())).n
    for curve, y in BASINS.items():
        own = overlaid_by(result, partial(_basin, curve), measure=curve)
        rows += own
        panels.append(
            curves(own, STATES, y, of_groups(list(result.basins)), width=PANEL, height=PANEL).properties(title=y)
        )
    title = alt.Title(f"Basins of classes: {name}", subtitle=about(n, result.seed))
    return Figure(alt.hconcat(*panels).properties(title=title), rows)


def _basin(curve: str, model: ModelDynamics) -> LayerEstimates | None:
    """Return one curve of the basins of a model, by token group."""
    if not model.basins:
        return None
    ends = {group: getattr(one, curve) for group, one in model.basins.items()}
    return LayerEstimates(
        mean={group: one.value for group, one in ends.items()},
        low={group: one.low for group, one in ends.items()},
        high={group: one.high for group, one in ends.items()},
        n=next(iter(model.basins.values())).n,
        seed=model.seed,
    )


@figure(
    "dynamics",
    "expansion",
    "dynamics",
    (
        "Largest Lyapunov exponents of each phase: above 0, small differences between tokens grow with depth; below "
        "0, they shrink."
    ),
    chapter="linearise",
    title="Do small differences grow or shrink?",
)
def expansion(result: DynamicsResult, name: str) -> Figure | None:
    """Draw the leading exponents of each phase."""
    if result.lyapunov is None or result.phases is None:
        return None
    names = [f"layers {span[0]} to {span[-1]}" for span in result.phases.ranges]
    exponents = result.lyapunov.mean
    rows = [
        {"phase": phase, "number": i + 1, "exponent": value, "low": low, "high": high}
        for phase, *values in zip(names, exponents.value, exponents.low, exponents.high, strict=True)
        for i, (value, low, high) in enumerate(zip(*values, strict=True))
    ]
    colour = alt.Color("phase:N", title="phase", sort=names, legend=alt.Legend(symbolOpacity=1), scale=alt.Scale(
        domain=names, range=[PALETTE[i % len(PALETTE)] for i in range(len(names))]))  # fmt: skip
    base = chart_of(rows).encode(
        x=alt.X("number:Q", title="exponent, largest first", axis=alt.Axis(tickMinStep=1, format="d")), color=colour
    )
    numbers = [alt.Tooltip(f"{column}:Q", format=".3f") for column in ("exponent", "low", "high")]
    line = base.mark_line(point=True).encode(
        y=alt.Y("exponent:Q", title="Lyapunov exponent per layer"), tooltip=["phase:N", *numbers]
    )
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    zero = chart_of([{"exponent": 0}]).mark_rule(strokeDash=[4, 3], color="#777777")
    subtitle = f"n = {result.lyapunov.n} image{'s' * (result.lyapunov.n != 1)}; band: 95% interval over images"
    title = alt.Title(f"Lyapunov exponents: {name}", subtitle=[subtitle, *stored_note(result.lyapunov_from)])
    chart = (zero.encode(y="exponent:Q") + band + line).properties(width=WIDTH, height=HEIGHT, title=title)
    return Figure(chart, rows)


@figure(
    "dynamics",
    "beyond",
    "dynamics",
    "Speed when the last block is repeated beyond the last layer; at 0, directions have converged.",
    order=30,
    chapter="converge",
    title="What happens when the last block is repeated?",
)
def beyond(result: DynamicsResult, name: str) -> Figure | None:
    """Draw the speed beyond the last layer."""
    if result.beyond is None:
        return None
    title, label = f"Beyond the last layer: {name}", CURVES["speed"].label
    return by_layer(result.beyond.speed, title, label, "layers after the last", levels=[{"value": 0}], ruler=False)
