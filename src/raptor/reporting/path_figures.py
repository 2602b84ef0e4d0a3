"""Figure 6, left: trajectories of classes in principal directions; and what their basins measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from raptor.dynamics.basins import Basins
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.paths import Paths, class_name
from raptor.reporting.drawing import PALETTE, Figure
from raptor.reporting.layer_figures import STATES, about, curves, of_groups, rows_of

PANEL = 240  # pixels
CLASSES = 5  # the paper's number


def trajectories(paths: dict[str, Paths], classes: Sequence[str] | None, title: str) -> Figure:
    """Draw the mean path of the most frequent classes, bold, and those of some of their images, faint."""
    count = next(iter(paths.values())).count
    numbers = sorted(count, key=lambda number: (-count[number], number))[:CLASSES]
    names = {n: class_name(n, classes) for n in numbers}
    scale = alt.Scale(domain=list(names.values()), range=list(PALETTE[: len(names)]))
    panels, rows = [], []
    for group, of_group in paths.items():
        means = [row for n in numbers for row in _points(of_group.classes[n], group, names[n], "mean")]
        single = [
            row
            for i, (n, path) in enumerate(of_group.examples)
            if n in names
            for row in _points(path, group, names[n], f"image {i}")
        ]
        rows += means + single
        share = " and ".join(f"{part:.0%}" for part in of_group.explained[:2])
        faint = _lines(single, scale).mark_line(opacity=0.25, strokeWidth=1).encode(detail="path:N")
        bold = _lines(means, scale).mark_line(strokeWidth=2.5)
        dots = _lines(means, scale).mark_circle().encode(
            size=alt.Size("layer:Q", title="layer", scale=alt.Scale(range=[8, 90])), tooltip=["class:N", "layer:Q"]
        )  # fmt: skip
        panels.append(
            (faint + bold + dots).properties(
                width=PANEL, height=PANEL, title=alt.Title(group, subtitle=f"{share} of the variance")
            )
        )
    subtitle = f"unit group means; {CLASSES} most frequent classes at most; dots grow from layer 0 to the last"
    return Figure(alt.hconcat(*panels).properties(title=alt.Title(title, subtitle=subtitle)), rows)


def _points(path: list[list[float]], group: str, name: str, kind: str) -> list[dict[str, Any]]:
    return [
        {"group": group, "class": name, "path": kind, "layer": layer, "first": at[0], "second": at[1], "third": at[2]}
        for layer, at in enumerate(path)
    ]


def _lines(rows: list[dict[str, Any]], scale: alt.Scale) -> alt.Chart:
    return alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("first:Q", title="first direction", scale=alt.Scale(zero=False)),
        y=alt.Y("second:Q", title="second direction", scale=alt.Scale(zero=False)),
        color=alt.Color("class:N", title="class", scale=scale, legend=alt.Legend(symbolOpacity=1)),
        order="layer:Q",
    )


def basins(found: dict[str, Basins], title: str, seed: int) -> Figure:
    """Draw angles within classes and between them, and how many images are nearest to their own class."""
    panels, rows = [], []
    names = {
        "within": "angle to its own class", "between": "angle to other classes", "nearest": "nearest to its own class",
    }  # fmt: skip
    n = next(iter(found.values())).n
    for name, y in names.items():
        values = ByLayer(
            mean={group: getattr(one, name) for group, one in found.items()},
            low={group: one.low[name] for group, one in found.items()},
            high={group: one.high[name] for group, one in found.items()},
            n=n,
            seed=seed,
        )
        own = rows_of(values, measure=name)
        rows += own
        panels.append(curves(own, STATES, y, of_groups(list(found)), width=PANEL, height=PANEL))
    return Figure(alt.hconcat(*panels).properties(title=alt.Title(title, subtitle=about(n, seed))), rows)
