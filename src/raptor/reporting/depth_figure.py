"""Depth in one linked figure: similarity, cuts, scores, certainty and descriptions move with k and the token group."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from raptor.phases import Phases
from raptor.reporting.drawing import HEIGHT, SEQUENTIAL, WIDTH
from raptor.reporting.phase_figures import CELLS, CUT, KINDS, cells, cuts, heat

HERE = "datum.k == k && datum.group == group"


def linked(result: dict[str, Any]) -> alt.VConcatChart:
    """Draw the result of `raptor phases`, with a slider for k and a choice of token group."""
    groups = result["groups"]
    ks = sorted(int(k) for k in result["by_k"])
    k = alt.param("k", value=result["k"], bind=alt.binding_range(min=ks[0], max=ks[-1], step=1, name="phases "))
    own = result["group"] if result["group"] in groups else next(iter(groups))
    chosen = alt.param("group", value=own, bind=alt.binding_select(options=list(groups), name="tokens "))
    partitions = {
        (name, int(k)): (Phases.parse(best["phases"]), best["score"])
        for name, group in groups.items()
        for k, best in group["by_k"].items()
    }
    upper = alt.hconcat(_similarity(groups, partitions, result["layers"]), _scores(partitions))
    lower = alt.hconcat(_certainty(result, partitions), _descriptions(result))
    lower = lower.resolve_scale(color="independent", shape="independent")
    return alt.vconcat(upper, lower).add_params(k, chosen).resolve_scale(color="independent", shape="independent")


Partitions = dict[tuple[str, int], tuple[Phases, float]]


def _similarity(groups: dict[str, Any], partitions: Partitions, last: int) -> alt.LayerChart:
    matrices = {name: np.array(group["similarity"]) for name, group in groups.items()}
    first = last + 1 - len(next(iter(matrices.values())))
    low = min(0.0, *(float(matrix.min()) for matrix in matrices.values()))
    colour = alt.Color("value:Q", title="cosine", scale=alt.Scale(scheme=SEQUENTIAL, domain=[low, 1.0]))
    rows = [row for name, matrix in matrices.items() for row in cells(matrix, first, group=name)]
    drawn = heat(rows, first, last, CELLS, colour).transform_filter("datum.group == group")
    lines = [
        line.transform_filter(HERE)
        for name in groups
        for line in cuts({k: phases for (group, k), (phases, _) in partitions.items() if group == name}, last, name)
    ]
    return alt.layer(drawn, *lines).properties(title="Similarity between layers, and the best cut into k")


def _scores(partitions: Partitions) -> alt.LayerChart:
    rows = [
        {"group": group, "k": k, "score": score, "phases": str(phases)}
        for (group, k), (phases, score) in partitions.items()
    ]
    base = (
        alt.Chart(alt.Data(values=rows))
        .transform_filter("datum.group == group")
        .encode(
            x=alt.X("k:O", title="number of phases k", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("score:Q", title="score of the best cut", scale=alt.Scale(zero=False, padding=18)),
            tooltip=["k:O", "phases:N", alt.Tooltip("score:Q", format=".4f")],
        )
    )
    here = base.transform_filter("datum.k == k")
    marked = here.mark_circle(size=160, color=CUT) + here.mark_text(dy=-16, fontSize=12).encode(text="phases:N")
    line = base.mark_line(color="#0072B2") + base.mark_circle(size=60, color="#0072B2")
    return alt.layer(line, marked).properties(
        width=WIDTH, height=CELLS, title="Score by k: a higher one alone is no evidence of phases"
    )


def _certainty(result: dict[str, Any], partitions: Partitions) -> alt.Chart:
    bootstrap = result["bootstrap"]
    if bootstrap is None:
        words = [{"text": "not known: images are too few to resample, or a matrix was given"}]
        told = alt.Chart(alt.Data(values=words)).mark_text().encode(text="text:N")
        return told.properties(width=WIDTH, height=HEIGHT, title="Certainty of boundaries")
    frequency = {int(layer): share for layer, share in bootstrap["boundary_frequency"].items()}
    rows = [
        {"group": group, "k": k, "boundary": f"{layer}|{layer + 1}", "order": layer,
         "frequency": frequency.get(layer, 0.0), "cut": "yes" if layer in phases.boundaries else "no"}
        for (group, k), (phases, _) in partitions.items()
        for layer in range(1, result["layers"])
    ]  # fmt: skip
    title = f"Certainty of boundaries: {bootstrap['n']} resamples, k = {result['k']}, tokens: {result['group']}"
    x = alt.X("boundary:N", sort=alt.SortField("order"), title="between layers", axis=alt.Axis(labelAngle=0))
    return (
        alt.Chart(alt.Data(values=rows))
        .transform_filter(HERE)
        .mark_bar()
        .encode(
            x=x,
            y=alt.Y("frequency:Q", title="share of resamples", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("cut:N", title="cut above", scale=alt.Scale(domain=["yes", "no"], range=[CUT, "#999999"])),
            tooltip=["boundary:N", alt.Tooltip("frequency:Q", format=".3f")],
        )
        .properties(width=WIDTH, height=HEIGHT, title=title)
    )


def _descriptions(result: dict[str, Any]) -> alt.LayerChart:
    structure = result["structure"]
    found = [("drift", "drift", 0, structure["drift"]), ("paced drift", "paced drift", 0, structure["paced_drift"])]
    found += [("blocks", f"{k} blocks", int(k), one) for k, one in structure["blocks"].items()]
    rows = []
    for kind, name, k, one in found:
        error = one["residual"] if one["held_out"] is None else one["held_out"]
        low, high = one["held_out_ci"] or (error, error)
        rows.append({"kind": kind, "name": name, "blocks": k, "parameters": one["parameters"], "error": error,
                     "low": low, "high": high})  # fmt: skip
    held = structure["drift"]["held_out"] is not None
    title = "error on held-out images" if held else "residual"
    strong = alt.condition("datum.kind != 'blocks' || datum.blocks == k", alt.value(1.0), alt.value(0.3))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("parameters:Q", scale=alt.Scale(zero=True)),
        color=alt.Color("kind:N", title="description", scale=alt.Scale(
            domain=KINDS, range=["#0072B2", "#009E73", "#D55E00"])),
        opacity=strong,
    )  # fmt: skip
    points = base.mark_point(size=80, filled=True).encode(
        y=alt.Y("error:Q", title=title), shape=alt.Shape("kind:N", title="description", scale=alt.Scale(domain=KINDS)),
        tooltip=["name:N", "parameters:Q", alt.Tooltip("error:Q", format=".4f")],
    )  # fmt: skip
    bars = base.mark_rule().encode(y="low:Q", y2="high:Q")
    words = f"Drift or phases: the verdict is {result['verdict']}"
    return alt.layer(bars, points).properties(width=WIDTH, height=HEIGHT, title=words)
