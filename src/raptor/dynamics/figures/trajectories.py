"""Figures 6 and 7 of the paper: trajectories, convergence and norms."""

from __future__ import annotations

import altair as alt

from raptor.dynamics.curves.convergence import CONVERGED
from raptor.dynamics.curves.overlay import overlaid
from raptor.dynamics.curves.registry import CURVES
from raptor.dynamics.result import DynamicsResult
from raptor.render.charts import PALETTE, Figure, Row, chart_of
from raptor.render.layer_charts import by_layer
from raptor.render.registry import figure

PANEL = 240  # pixels
CLASSES = 5  # as in the paper


@figure(
    "dynamics",
    "trajectories",
    "dynamics",
    "Path of each class from layer 0 to the last: mean token directions, projected onto two principal components. "
    "Thin lines: single images.",
    "Figure 6, left",
    wide=True,
    order=20,
    chapter="converge",
    title="Paths of classes through depth",
)
def trajectories(result: DynamicsResult, name: str) -> Figure:
    """Draw the mean trajectory of the most frequent classes, bold, and those of some of their images, faint."""
    first = next(iter(result.paths.values()))
    names = sorted(first.classes, key=lambda one: -first.count[one])[:CLASSES]
    scale = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    panels, rows = [], []
    for group, paths in result.paths.items():
        means = [row for one in names for row in _points(paths.classes[one], group, one, "mean")]
        single = [
            row
            for i, example in enumerate(paths.examples)
            if example.class_name in names
            for row in _points(example.path, group, example.class_name, f"image {i}")
        ]
        rows += means + single
        share = " and ".join(f"{part:.0%}" for part in paths.explained[:2])
        faint = _lines(single, scale).mark_line(opacity=0.4, strokeWidth=1).encode(detail="path:N")
        bold = _lines(means, scale).mark_line(strokeWidth=2.5)
        dots = _lines(means, scale).mark_circle().encode(
            size=alt.Size("layer:Q", legend=None, scale=alt.Scale(range=[8, 90])), tooltip=["class:N", "layer:Q"]
        )  # fmt: skip
        panels.append(
            (faint + bold + dots).properties(
                width=PANEL, height=PANEL, title=alt.Title(group, subtitle=f"{share} of the variance")
            )
        )
    subtitle = f"mean direction of each of the {CLASSES} most frequent classes; dots grow from layer 0 to the last"
    title = alt.Title(f"Trajectories of classes: {name}", subtitle=subtitle)
    return Figure(alt.hconcat(*panels).properties(title=title), rows)


def _points(path: list[list[float]], group: str, name: str, kind: str) -> list[Row]:
    return [
        {"group": group, "class": name, "path": kind, "layer": layer, "first": at[0], "second": at[1], "third": at[2]}
        for layer, at in enumerate(path)
    ]


def _lines(rows: list[Row], scale: alt.Scale) -> alt.Chart:
    return chart_of(rows).encode(
        x=alt.X("first:Q", title="first component", scale=alt.Scale(zero=False)),
        y=alt.Y("second:Q", title="second component", scale=alt.Scale(zero=False)),
        color=alt.Color("class:N", title="class", scale=scale, legend=alt.Legend(symbolOpacity=1)),
        order="layer:Q",
    )


@figure(
    "dynamics",
    "convergence",
    "dynamics",
    "Cosine between a token at each layer and the same token at the last layer; 1 once its direction has converged. "
    "For tokens that the classifier does not read, it is the layer before the last: their last update has no effect. "
    "The horizontal line is 0.9.",
    "Figure 6, right",
    order=10,
    wide=True,
    chapter="converge",
    title="Where do directions converge?",
    beside="Where do directions converge?",
)
def convergence(result: DynamicsResult, name: str) -> Figure:
    """Draw gamma by layer, with the phase boundaries."""
    ends = () if result.phases is None else result.phases.boundaries
    return by_layer(
        result.curves["gamma"], f"Directional convergence: {name}", CURVES["gamma"].label,
        cuts=[end + 0.5 for end in ends], levels=[{"value": CONVERGED}], rows=overlaid(result, "gamma"),
    )  # fmt: skip


@figure(
    "dynamics", "norms", "depth", "Mean norm of tokens by layer, with 95% intervals over images.", "Figure 7",
    order=90, title="How long are the tokens?", wide=True,
)  # fmt: skip
def norms(result: DynamicsResult, name: str) -> Figure:
    """Draw the norms by layer and token group."""
    rows = overlaid(result, "norm")
    return by_layer(result.curves["norm"], f"Norms by layer: {name}", CURVES["norm"].label, rows=rows)
