"""The chart of fidelity by layer, which `fidelity` and `distill` draw."""

from __future__ import annotations

import altair as alt

from raptor.core.estimate import LayerEstimates
from raptor.core.phases import Phases
from raptor.render.charts import GROUP_COLOURS, HEIGHT, WIDTH, Row, chart_of

CAPTION = (
    "How well the surrogate reproduces the teacher's tokens at each layer: R2 (left) and squared correlation (right); "
    "1 is perfect. Dashed lines are baselines: on the left, the teacher's tokens at the start of the phase take "
    "the place of the surrogate's; on the right, the surrogate is compared with the teacher on another image."
)
IDENTITY = "all, identity"  # the teacher's state at the input of each phase, repeated
SHUFFLED = "all, another image"  # the squared correlation with a token of another image
BASELINE_COLOUR = "#777777"


def fidelity_chart(by_layer: dict[str, LayerEstimates], phases: Phases, title: str) -> alt.HConcatChart:
    """Draw R2 and squared correlation of each token group by layer, each with its baseline.

    Parameters
    ----------
    by_layer
        What `trajectory_fidelity` returns.
    phases
        Phases of the surrogate, whose boundaries are drawn.
    title
        Title of the chart.
    """
    r2 = by_layer["r2"]
    groups = [group for group in r2.groups if group != "all"]
    colours = [*(GROUP_COLOURS[group] for group in groups), BASELINE_COLOUR]
    cuts = chart_of([{"cut": layer + 0.5} for layer in phases.boundaries])
    panels = []
    for measure, baseline, name in (("r2", "r2_identity", IDENTITY), ("pearson2", "pearson2_shuffled", SHUFFLED)):
        rows = [row for group in groups for row in _rows(by_layer[measure], group, group)]
        rows += _rows(by_layer[baseline], "all", name)
        lines = _lines(rows, [*groups, name], colours, "tokens", "R2" if measure == "r2" else "squared correlation")
        rule = cuts.mark_rule(strokeDash=[4, 3], color="#999999").encode(x="cut:Q")
        panels.append(alt.layer(rule, lines).properties(width=WIDTH, height=HEIGHT))
    return alt.hconcat(*panels).resolve_scale(color="independent").properties(title=_title(r2, title))


def _rows(measured: LayerEstimates, group: str, name: str) -> list[Row]:
    ends = zip(measured.mean[group], measured.low[group], measured.high[group], strict=True)
    return [
        {"name": name, "layer": layer, "value": value, "low": low, "high": high}
        for layer, (value, low, high) in enumerate(ends, 1)
    ]


def _lines(rows: list[Row], names: list[str], colours: list[str], legend: str, measure: str) -> alt.LayerChart:
    base = chart_of(rows)
    x = alt.X(
        "layer:Q", title="layer", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=False, nice=False, padding=8)
    )
    colour = alt.Color(
        "name:N", title=legend, scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(symbolOpacity=1)
    )
    # Clipped at -0.2: a surrogate far below 0 would make the rest unreadable.
    y = alt.Y("value:Q", title=measure, scale=alt.Scale(domainMin=-0.2, domainMax=1, clamp=True))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    band = base.mark_area(opacity=0.2, clip=True).encode(
        x=x, y=alt.Y("low:Q", title=measure), y2="high:Q", color=colour
    )
    line = base.mark_line(point=True).encode(
        x=x, y=y, color=colour, tooltip=["name:N", "layer:Q", *numbers],
        strokeDash=alt.condition(
            f"datum.name == '{IDENTITY}' || datum.name == '{SHUFFLED}'", alt.value([4, 4]), alt.value([1, 0])
        ),
    )  # fmt: skip
    return band + line


def _title(r2: LayerEstimates, title: str) -> alt.Title:
    subtitle = f"n = {r2.n} images; band: 95% bootstrap interval over images, seed {r2.seed}"
    return alt.Title(title, subtitle=subtitle)
