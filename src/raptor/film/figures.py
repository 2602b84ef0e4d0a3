"""The depth film as a figure: all layers of one image side by side, one strip per model and per difference."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from raptor.film.film import Film, FilmResult
from raptor.render.charts import SEQUENTIAL, Figure, Row, chart_of
from raptor.render.registry import figure

CELL = 6  # points per patch
GAP = 1  # patches between two pictures


@figure("film", "film", None, "Patch tokens of one image by layer; three principal components are red, green, blue.")
def film(result: FilmResult, name: str) -> Figure | None:
    """Draw the film of the first image."""
    return None if result.film is None else film_figure(result.film)


def film_figure(film: Film) -> Figure:
    """Draw the film of its first image; the figure's rows are the patches of all images."""
    first = next(iter(film.colours.values()))
    _, layers, high, wide = first.shape[:4]
    patches = _patches(film)
    strips = [*film.colours, *(f"difference: {flow}" for flow in film.apart)]
    drawn = [_square(patch, strips.index(patch["flow"]), high, wide, patch["colour"])
             for patch in patches if patch["image"] == 1]  # fmt: skip
    apart = [_square(patch, strips.index(f"difference: {patch['flow']}"), high, wide, patch["apart"])
             for patch in patches if patch["image"] == 1 and patch["apart"] is not None]  # fmt: skip
    middles = {layer * (wide + GAP) + wide / 2: layer for layer in range(layers)}
    labels = alt.Axis(
        values=list(middles), labelExpr=f"round((datum.value - {wide / 2}) / {wide + GAP})", grid=False, ticks=False,
        domain=False, labelOverlap=True,
    )  # fmt: skip
    span = alt.Scale(nice=False, domain=[0, layers * (wide + GAP) - GAP])
    ends = {"x": alt.X("x:Q", title="layer", axis=labels, scale=span), "x2": "x2:Q", "y2": "y2:Q",
            "y": alt.Y("y:Q", axis=None, scale=alt.Scale(reverse=True))}  # fmt: skip
    colours = chart_of(drawn).mark_rect().encode(**ends, color=alt.Color("value:N", scale=None))
    names = (
        chart_of([{"y": at * (high + GAP) + high / 2, "name": name} for at, name in enumerate(strips)])
        .mark_text(align="right", dx=-6)
        .encode(x=alt.datum(0), y=alt.Y("y:Q", axis=None, scale=alt.Scale(reverse=True)), text="name:N")
    )
    parts = [colours, names]
    if apart:
        scale = alt.Scale(scheme=SEQUENTIAL, domainMin=0)
        parts.append(
            chart_of(apart).mark_rect().encode(**ends, color=alt.Color("value:Q", title="1 - cosine", scale=scale))
        )
    size = {"width": CELL * layers * (wide + GAP), "height": CELL * len(strips) * (high + GAP)}
    chart = alt.layer(*parts).resolve_scale(color="independent").properties(**size, title="Depth film of image 1")
    return Figure(chart.configure_view(stroke=None), patches)


def _square(patch: dict[str, Any], strip: int, high: int, wide: int, value: Any) -> dict[str, Any]:
    x = patch["layer"] * (wide + GAP) + patch["column"] - 1
    y = strip * (high + GAP) + patch["row"] - 1
    return {"x": x, "x2": x + 1, "y": y, "y2": y + 1, "value": value}


def _patches(film: Film) -> list[Row]:
    """Return every patch of every image and layer: its colour, and its difference from the teacher's."""
    rows = []
    for flow, colours in film.colours.items():
        apart = film.apart.get(flow)
        for image, layer, row, column in np.ndindex(*colours.shape[:4]):
            red, green, blue = colours[image, layer, row, column].tolist()
            rows.append(
                {"flow": flow, "image": image + 1, "layer": layer, "row": row + 1, "column": column + 1,
                 "colour": f"#{red:02x}{green:02x}{blue:02x}",
                 "apart": None if apart is None else round(float(apart[image, layer, row, column]), 6)}
            )  # fmt: skip
    return rows
