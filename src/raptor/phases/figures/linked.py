"""Depth in one linked figure: similarity, scores, certainty and candidate models follow k and the token group."""

from __future__ import annotations

import altair as alt

from raptor.core.phases import Phases
from raptor.errors import MatrixError
from raptor.phases.figures.shared import candidate_axes, candidate_rows, model_figure
from raptor.phases.form.candidates import BLOCKS, DRIFT, KIND_NAMES, NONUNIFORM_DRIFT, CandidateFit
from raptor.phases.matrix import MOST_LAYERS
from raptor.phases.result import PhasesResult
from raptor.render.charts import HEIGHT, SEQUENTIAL, WIDTH, Figure, chart_of
from raptor.render.matrix_charts import CELLS, CUT, cells, cuts, heat

HERE = "datum.k == k && datum.group == group"
Partitions = dict[tuple[str, int], tuple[Phases, float]]


@model_figure(
    "depth", "depth",
    "Top left: similarity of each pair of layers. Phases would appear as bright squares along the diagonal, a drift as "
    "a bright band that fades away from it. Top right: score of the best partition, by number of phases k. Bottom "
    "left: how often resampled images give each boundary. Bottom right: error of the models described above, by "
    "number of parameters. The controls change k and the group of tokens.",
    paper="Figures 1 and 2", wide=True, on_page=True,
)  # fmt: skip
def depth(result: PhasesResult, name: str) -> Figure:
    """Draw all that is known of a model's phases, with a slider for k and a menu of token groups."""
    if result.phases.depth > MOST_LAYERS:
        raise MatrixError(f"there are {result.phases.depth} layers: at most {MOST_LAYERS} are drawn")
    ks = sorted(result.by_k)
    k = alt.param("k", value=result.k, bind=alt.binding_range(min=ks[0], max=ks[-1], step=1, name="phases "))
    own = result.group if result.group in result.groups else next(iter(result.groups))
    chosen = alt.param("group", value=own, bind=alt.binding_select(options=list(result.groups), name="tokens "))
    partitions = {
        (name, number): (best.phases, best.score)
        for name, group in result.groups.items()
        for number, best in group.by_k.items()
    }
    upper = alt.hconcat(_similarity(result, partitions), _scores(partitions, result.objective))
    lower = alt.hconcat(_certainty(result, partitions), _candidates(result))
    lower = lower.resolve_scale(color="independent", shape="independent")
    chart = alt.vconcat(upper, lower).add_params(k, chosen)
    return Figure(chart.resolve_scale(color="independent", shape="independent"))


def _similarity(result: PhasesResult, partitions: Partitions) -> alt.LayerChart:
    matrices = {name: group.similarity for name, group in result.groups.items()}
    last = result.phases.depth
    first = last + 1 - len(next(iter(matrices.values())))
    low = min(0.0, *(float(matrix.min()) for matrix in matrices.values()))
    colour = alt.Color("value:Q", title="cosine", scale=alt.Scale(scheme=SEQUENTIAL, domain=[low, 1.0]))
    rows = [row for name, matrix in matrices.items() for row in cells(matrix, first, group=name)]
    drawn = heat(rows, first, last, CELLS, colour).transform_filter("datum.group == group")
    lines = [
        line.transform_filter(HERE)
        for name in matrices
        for line in cuts({k: phases for (group, k), (phases, _) in partitions.items() if group == name}, last, name)
    ]
    return alt.layer(drawn, *lines).properties(title="Similarity between layers, and the best partition into k phases")


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
    return alt.layer(line, marked).properties(
        width=WIDTH, height=CELLS, title="Score by k: a higher score alone is not evidence of phases"
    )


def _certainty(result: PhasesResult, partitions: Partitions) -> alt.Chart:
    if result.bootstrap is None:
        words = [{"text": "unknown: too few images to resample, or a matrix was given"}]
        note = chart_of(words).mark_text().encode(text="text:N")
        return note.properties(width=WIDTH, height=HEIGHT, title="Certainty of boundaries")
    frequency = result.bootstrap.boundary_frequency
    rows = [
        {"group": group, "k": k, "boundary": f"{layer}|{layer + 1}", "order": layer,
         "frequency": frequency.get(layer, 0.0), "cut": "yes" if layer in phases.boundaries else "no"}
        for (group, k), (phases, _) in partitions.items()
        for layer in range(1, result.phases.depth)
    ]  # fmt: skip
    title = f"Certainty of boundaries: {result.bootstrap.n} resamples, k = {result.k}, tokens: {result.group}"
    x = alt.X("boundary:N", sort=alt.SortField("order"), title="boundary between layers", axis=alt.Axis(labelAngle=0))
    domain = alt.Scale(domain=["yes", "no"], range=[CUT, "#999999"])
    return (
        chart_of(rows)
        .transform_filter(HERE)
        .mark_bar()
        .encode(
            x=x,
            y=alt.Y("frequency:Q", title="share of resamples", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("cut:N", title="in the best partition", scale=domain),
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
    strong = alt.condition("datum.kind != 'blocks' || datum.blocks == k", alt.value(1.0), alt.value(0.3))
    _, points, bars = candidate_axes(rows, structure)
    title = f"Models of similarity; best: {KIND_NAMES.get(result.verdict, result.verdict)}"
    layers = alt.layer(bars.encode(opacity=strong), points.encode(opacity=strong))
    return layers.properties(width=WIDTH, height=HEIGHT, title=title)
