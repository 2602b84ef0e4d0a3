"""Figures that a run of `raptor phases` draws, one function each."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from raptor.phases.comparison import PhasesComparison
from raptor.phases.figures.shared import VERB, candidate_axes, candidate_rows, model_figure, readable
from raptor.phases.form.candidates import BLOCKS, DRIFT, NONUNIFORM_DRIFT, CandidateModel
from raptor.phases.panels import panel, subtitle
from raptor.phases.result import PhasesResult
from raptor.render.charts import DIVERGING, HEIGHT, SEQUENTIAL, WIDTH, Figure, chart_of
from raptor.render.matrix_charts import CELLS, CUT, SMALL_CELLS, cells, cuts, heat, side_by_side
from raptor.render.registry import figure


@model_figure("similarity", None, "Similarity between layers, with the best partition.")
def similarity(result: PhasesResult, name: str) -> Figure:
    """Draw S with the boundaries of k phases; a slider moves k where the figure is interactive."""
    partitions = {k: best.phases for k, best in result.by_k.items()}
    first, matrix = result.first_layer, result.own_group.similarity
    last = result.phases.depth
    low = min(0.0, float(np.floor(matrix.min() * 10) / 10))
    colour = alt.Color(
        "value:Q",
        title="cosine",
        scale=alt.Scale(scheme=SEQUENTIAL, domain=[low, 1.0]),
        legend=alt.Legend(format=".1f"),
    )
    slider = alt.param(
        "k",
        value=result.k,
        bind=alt.binding_range(min=min(partitions), max=max(partitions), step=1, name="number of phases "),
    )
    vertical, horizontal = (line.transform_filter("datum.k == k") for line in cuts(partitions, last))
    drawn = heat(cells(matrix, first), first, last, CELLS, colour)
    title = alt.Title(f"Similarity between layers: {name}", subtitle=subtitle(result))
    return Figure((drawn + vertical + horizontal).add_params(slider).properties(title=title))


@model_figure(
    "remains",
    "depth",
    "The similarity matrix minus each of the models described above; pale means a good fit.",
    wide=True,
    order=40,
    title="What do simple models of similarity miss?",
)
def residuals(result: PhasesResult, name: str) -> Figure | None:
    """Draw S minus each candidate model; None where the result was read from a file, which has no fitted matrices."""
    drift = result.structure.nonuniform_drift
    shown = [
        CandidateModel(DRIFT, None, result.structure.drift),
        CandidateModel(NONUNIFORM_DRIFT, drift.time_parameterisation, drift),
    ]
    if result.k in result.structure.blocks:
        shown.append(CandidateModel(BLOCKS, result.k, result.structure.blocks[result.k]))
    left = {one: result.similarity - one.fit.fitted for one in shown if one.fit.fitted is not None}
    if not left:
        return None
    most = max(float(np.abs(matrix).max()) for matrix in left.values())
    colour = alt.Color(
        "value:Q", title="similarity minus model", scale=alt.Scale(scheme=DIVERGING, domain=[-most, most], reverse=True)
    )
    charts = [
        heat(cells(matrix, 1), 1, result.phases.depth, SMALL_CELLS, colour).properties(
            title=alt.Title(
                readable(one.name), subtitle=f"{one.fit.parameters} parameters, residual {one.fit.residual:.3f}"
            )
        )
        for one, matrix in left.items()
    ]
    return Figure(alt.hconcat(*charts).properties(title=f"Residuals of models of similarity: {name}"))


@model_figure(
    "function",
    None,
    "Cosine between the update of a layer (row) and the update that the block of another layer (column) makes at the "
    "same input; 1 for interchangeable layers. Lines: phases by this cosine.",
)
def function(result: PhasesResult, name: str) -> Figure | None:
    """Draw the update cosine with the boundaries that follow from it; None where it was not measured."""
    if result.function is None:
        return None
    matrix, depth = np.asarray(result.function.update_cosine[result.group]), result.phases.depth
    phases = result.methods["function"].phases
    colour = alt.Color(
        "value:Q", title="update cosine", scale=alt.Scale(scheme=DIVERGING, domain=[-1.0, 1.0], reverse=True)
    )
    drawn = alt.layer(heat(cells(matrix, 1), 1, depth, CELLS, colour), *cuts({phases.k: phases}, depth))
    title = alt.Title(
        f"Update cosine between layers: {name}",
        subtitle=f"tokens: {result.group}; n = {result.function.images} images; phases {phases}",
    )
    return Figure(drawn.properties(title=title))


@model_figure("descriptions", None, "Error of each model of similarity, by its number of parameters.")
def candidates(result: PhasesResult, name: str) -> Figure:
    """Draw the error of every candidate model, on held-out images where there are any, by number of parameters."""
    named = [(one.kind, one.name, one.fit) for one in result.structure.candidates]
    base, points, bars = candidate_axes(candidate_rows(named), result.structure)
    labels = base.mark_text(align="left", dx=8, dy=-6, fontSize=12).encode(y="error:Q", text="label:N")
    reason = result.structure.why_not_held_out
    subtitle = "root mean square over pairs of layers; " + (reason or "bars: 95% intervals over folds")
    title = alt.Title(f"Models of similarity: {name}", subtitle=subtitle)
    return Figure((bars + points + labels).properties(width=WIDTH, height=HEIGHT, title=title))


@model_figure("scores", None, "Score of the best partition by number of phases.")
def scores(result: PhasesResult, name: str) -> Figure:
    """Draw the score of the best partition by k, and mark the k that was taken, the useful and the suggested one."""
    rows = [
        {"k": k, "score": best.score, "phases": str(best.phases), "role": ", ".join(result.roles(k))}
        for k, best in result.by_k.items()
    ]
    base = chart_of(rows).encode(
        x=alt.X("k:O", title="number of phases k", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("score:Q", title=f"score ({result.objective})", scale=alt.Scale(zero=False, padding=18)),
        tooltip=["k:O", "phases:N", alt.Tooltip("score:Q", format=".4f")],
    )
    named = base.mark_text(dy=-14, fontSize=12).encode(text="role:N")
    partition = base.mark_text(dy=16, fontSize=12, color="#666").encode(text="phases:N")
    line = base.mark_line(color="#0072B2") + base.mark_circle(size=60, color="#0072B2")
    subtitle = "best partition for each k; a higher score alone is not evidence of phases"
    title = alt.Title(f"Score by number of phases: {name}", subtitle=subtitle)
    return Figure((line + named + partition).properties(width=WIDTH + 120, height=HEIGHT, title=title))


@model_figure("certainty", None, "How often resampled images give each boundary.")
def certainty(result: PhasesResult, name: str) -> Figure | None:
    """Draw how often each boundary is found when images are resampled; None without a bootstrap."""
    if result.bootstrap is None:
        return None
    frequency = result.bootstrap.boundary_frequency
    rows = [
        {"boundary": f"{layer}|{layer + 1}", "order": layer, "frequency": frequency.get(layer, 0.0),
         "taken": "taken" if layer in result.boundaries else "another"}
        for layer in range(1, result.phases.depth)
    ]  # fmt: skip
    base = chart_of(rows).encode(
        x=alt.X("boundary:N", sort=alt.SortField("order"), title="boundary between layers", axis=alt.Axis(labelAngle=0))
    )
    bars = base.mark_bar().encode(
        y=alt.Y("frequency:Q", title="share of resamples", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("taken:N", title="in the best partition",
                        scale=alt.Scale(domain=["taken", "another"], range=[CUT, "#999999"])),
        tooltip=["boundary:N", alt.Tooltip("frequency:Q", format=".3f")],
    )  # fmt: skip
    subtitle = f"k = {result.k}, {result.bootstrap.n} resamples of {result.n} images, seed {result.seed}"
    if result.runner_up is not None:
        subtitle += f"; the runner-up {result.runner_up.phases} scores {result.runner_up.gap:.4f} less"
    title = alt.Title(f"Certainty of the boundaries: {name}", subtitle=subtitle)
    return Figure(alt.layer(bars).properties(width=WIDTH, height=HEIGHT, title=title))


@figure(
    VERB, "gallery", "depth", "Several models on the same colour scale, each with its own partition.", "Figure 1", True
)
def gallery(result: Any, name: str) -> Figure | None:
    """Draw several models side by side."""
    if not isinstance(result, PhasesComparison):
        return None
    panels = [panel(one.result, one.model) for one in result.models]
    return Figure(side_by_side(panels).properties(title="Similarity between layers"))
