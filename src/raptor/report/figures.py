"""Figures: one function each, one declaration for the page and for png, svg and pdf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from raptor.dynamics.geometry import ByLayer
from raptor.run import Run, to_json

# Okabe and Ito's palette: told apart by colour-blind readers too.
GROUP_COLOURS = {"cls": "#D55E00", "register": "#009E73", "patch": "#0072B2"}
WIDTH, HEIGHT = 420, 260


def _rows(values: ByLayer) -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "layer": layer,
            "value": mean,
            "low": values.low[group][layer],
            "high": values.high[group][layer],
        }
        for group, means in values.mean.items()
        for layer, mean in enumerate(means)
    ]


def norms(values: ByLayer, title: str) -> alt.LayerChart:
    """Draw the norm of each token group by layer, with its 95% band over images (the paper's Figure 7)."""
    colour = alt.Color(
        "group:N",
        title="tokens",
        legend=alt.Legend(symbolOpacity=1),
        scale=alt.Scale(domain=list(values.mean), range=[GROUP_COLOURS[group] for group in values.mean]),
    )
    x = alt.X("layer:O", title="layer (0 is the embedding)", axis=alt.Axis(labelAngle=0))
    base = alt.Chart(alt.Data(values=_rows(values)))
    band = base.mark_area(opacity=0.2).encode(
        x=x, y=alt.Y("low:Q", title="mean norm of a token"), y2="high:Q", color=colour
    )
    line = base.mark_line(point=True).encode(
        x=x,
        y="value:Q",
        color=colour,
        tooltip=["group:N", "layer:O", *(alt.Tooltip(f"{f}:Q", format=".3f") for f in ("value", "low", "high"))],
    )
    subtitle = f"n = {values.n} images; band: 95% bootstrap interval over images, seed {values.seed}"
    return (band + line).properties(width=WIDTH, height=HEIGHT, title=alt.Title(title, subtitle=subtitle))


def save(chart: Any, run: Run, name: str) -> Path:
    """Write a figure as png, svg and pdf into the run's `figures/`; return the path of the png."""
    import vl_convert

    spec = to_json(chart.to_dict())  # with null for what is not finite: the renderer reads JSON proper
    images = {
        "svg": vl_convert.vegalite_to_svg(spec).encode(),
        "pdf": vl_convert.vegalite_to_pdf(spec),
        "png": vl_convert.vegalite_to_png(spec, scale=2.0),
    }
    for ending, content in images.items():
        with run.file(f"figures/{name}.{ending}") as file:
            file.write(content)
    assert run.out is not None
    return run.out / f"figures/{name}.png"
