"""Depth on the page: two matrices side by side, and how many phases there are; both follow k and the token group."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from raptor.core.phases import Phases
from raptor.errors import MatrixError
from raptor.phases.figures.shared import candidate_axes, candidate_rows, model_figure
from raptor.phases.form.candidates import BLOCKS, DRIFT, KIND_NAMES, NONUNIFORM_DRIFT, CandidateFit
from raptor.phases.matrix import MOST_LAYERS
from raptor.phases.result import PhasesResult
from raptor.render.charts import DIVERGING, HEIGHT, SEQUENTIAL, WIDTH, Figure, chart_of
from raptor.render.matrix_charts import CELLS, CUT, cells, cuts, heat

HERE = "datum.k == k && datum.group == group"
Partitions = dict[tuple[str, int], tuple[Phases, float]]


@model_figure(
    "depth", "depth",
    "First: similarity, the mean cosine between a token at two layers. Phases would appear as bright squares along the "
    "diagonal, a drift as a bright band that fades away from it. Second: function, the cosine between the update of a "
    "layer (row) and the update that the block of another layer (column) makes at the same input; it is 1 for layers "
    "that do the same. Lines: the best partition into k phases by similarity.",
    paper="Figures 1 and 2", wide=True, on_page=True, order=10, title="Are layers alike, and do they do the same?",
    beside="Are layers alike?",
)  # fmt: skip
def depth(result: PhasesResult, name: str) -> Figure:
    """Draw similarity and functional similarity of the layers 1..L, with the same boundaries."""
    _check(result)
    last, partitions = result.phases.depth, _partitions(result)
    similar = {name: np.asarray(group.similarity)[-last:, -last:] for name, group in result.groups.items()}
    low = min(0.0, *(float(matrix.min()) for matrix in similar.values()))
    panels = [_matrix(similar, partitions, "similarity of tokens", "cosine", SEQUENTIAL, (low, 1.0))]
    if result.function is not None:
        function = {name: np.asarray(matrix) for name, matrix in result.function.update_cosine.items()}
        named = "update cosine"
        panels.append(_matrix(function, partitions, "similarity of function", named, DIVERGING, (-1.0, 1.0)))
    k, chosen = alt.param("k", value=result.k), alt.param("group", value=_own(result))
    chart = alt.hconcat(*panels).add_params(k, chosen).resolve_scale(color="independent")
    return Figure(chart.properties(title=alt.Title(f"Similarity between layers: {name}")))


@model_figure(
    "phases-by-k", "depth",
    "First: score of the best partition, by number of phases k; a higher score alone is not evidence of phases. "
    "Second: how often resampled images give each boundary. Third: error of models of the similarity matrix, by number "
    "of parameters; pale: other numbers of phases.",
    wide=True, on_page=True, order=20, title="How many phases, and how sure is that?",
)  # fmt: skip
def phases_by_k(result: PhasesResult, name: str) -> Figure:
    """Draw scores by k, certainty of boundaries, and candidate models."""
    _check(result)
    partitions = _partitions(result)
    k, chosen = alt.param("k", value=result.k), alt.param("group", value=_own(result))
    parts = [_scores(partitions, result.objective), _certainty(result, partitions), _candidates(result)]
    chart = alt.hconcat(*parts).add_params(k, chosen).resolve_scale(color="independent", shape="independent")
    return Figure(chart.properties(title=alt.Title(f"Number of phases: {name}")))


def _check(result: PhasesResult) -> None:
    if result.phases.depth > MOST_LAYERS:
        raise MatrixError(f"there are {result.phases.depth} layers: at most {MOST_LAYERS} are drawn")


def _own(result: PhasesResult) -> str:
    return result.group if result.group in result.groups else next(iter(result.groups))


def _partitions(result: PhasesResult) -> Partitions:
    return {
        (name, number): (best.phases, best.score)
        for name, group in result.groups.items()
        for number, best in group.by_k.items()
    }


def _matrix(
    matrices: dict[str, NDArray[Any]], partitions: Partitions, title: str, label: str, scheme: str,
    ends: tuple[float, float],
) -> alt.LayerChart:  # fmt: skip
    """Draw the matrix of the chosen group, with the boundaries of its best partition into k phases."""
    last = len(next(iter(matrices.values())))
    scale = alt.Scale(scheme=scheme, domain=list(ends), reverse=scheme == DIVERGING)
    rows = [row for name, matrix in matrices.items() for row in cells(matrix, 1, group=name)]
    colour = alt.Color("value:Q", title=label, scale=scale)
    drawn = heat(rows, 1, last, CELLS, colour).transform_filter("datum.group == group")
    lines = [
        line.transform_filter(HERE)
        for name in matrices
        for line in cuts({k: phases for (group, k), (phases, _) in partitions.items() if group == name}, last, name)
    ]
    return alt.layer(drawn, *lines).properties(title=title)


def _scores(partitions: Partitions, objective: str) -> alt.LayerChart:
    rows = [
        {"group": group, "k": k, "score": score, "phases": str(phases)}
        for (group, k), (phases, score) in partitions.items()
    ]
    base = (
        chart_of(rows)
        .transform_filter("datum.group == group")
        .encode(
            x=alt.X("k:O", title="number of phases k", axis=alt.Axis(labelAngle=0)),
            y=alt.Y(
                "score:Q", title=f"score of the best partition ({objective})", scale=alt.Scale(zero=False, padding=18)
            ),
            tooltip=["k:O", "phases:N", alt.Tooltip("score:Q", format=".4f")],
        )
    )
    here = base.transform_filter("datum.k == k")
    marked = here.mark_circle(size=160, color=CUT) + here.mark_text(dy=-16, fontSize=12).encode(text="phases:N")
    line = base.mark_line(color="#0072B2") + base.mark_circle(size=60, color="#0072B2")
    return alt.layer(line, marked).properties(width=WIDTH, height=CELLS, title="score by k")


def _certainty(result: PhasesResult, partitions: Partitions) -> alt.Chart:
    if result.bootstrap is None:
        words = [{"text": "unknown: too few images to resample, or a matrix was given"}]
        note = chart_of(words).mark_text(fontSize=12).encode(text="text:N")
        return note.properties(width=WIDTH, height=HEIGHT, title="certainty of boundaries")
    frequency = result.bootstrap.boundary_frequency
    rows = [
        {"group": group, "k": k, "boundary": f"{layer}|{layer + 1}", "depth": layer + 0.5,
         "frequency": frequency.get(layer, 0.0), "cut": "yes" if layer in phases.boundaries else "no"}
        for (group, k), (phases, _) in partitions.items()
        for layer in range(1, result.phases.depth)
    ]  # fmt: skip
    title = f"certainty of boundaries: {result.bootstrap.n} resamples, k = {result.k}, tokens: {result.group}"
    ticks = alt.Axis(tickMinStep=1, format="d")
    domain = alt.Scale(domain=["yes", "no"], range=[CUT, "#999999"])
    return (
        chart_of(rows)
        .transform_filter(HERE)
        .mark_bar(size=10)
        .encode(
            x=alt.X("depth:Q", title="layer", axis=ticks, scale=alt.Scale(domain=[0.5, result.phases.depth + 0.5])),
            y=alt.Y("frequency:Q", title="share of resamples", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("cut:N", title="boundary of the best partition", scale=domain),
            tooltip=["boundary:N", alt.Tooltip("frequency:Q", format=".3f")],
        )
        .properties(width=WIDTH, height=HEIGHT, title=title)
    )


def _candidates(result: PhasesResult) -> alt.LayerChart:
    structure = result.structure
    named: list[tuple[str, str, CandidateFit]] = [
        (DRIFT, DRIFT, structure.drift),
        (NONUNIFORM_DRIFT, NONUNIFORM_DRIFT, structure.nonuniform_drift),
        *((BLOCKS, f"{k} blocks", fit) for k, fit in structure.blocks.items()),
    ]
    numbers = [0, 0, *structure.blocks]
    rows = [
        {"kind": row["kind"], "name": row["name"], "blocks": k, **row}
        for row, k in zip(candidate_rows(named), numbers, strict=True)
    ]
    strong = alt.condition("datum.kind != 'blocks' || datum.blocks == k", alt.value(1.0), alt.value(0.55))
    _, points, bars = candidate_axes(rows, structure)
    title = f"models of similarity; best: {KIND_NAMES.get(result.verdict, result.verdict)}"
    layers = alt.layer(bars.encode(opacity=strong), points.encode(opacity=strong))
    return layers.properties(width=WIDTH, height=HEIGHT, title=title)
