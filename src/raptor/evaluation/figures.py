"""Figures of `raptor fidelity`, and of all surrogates of a model together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from raptor.core.estimate import Estimate
from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.fidelity_chart import CAPTION, IDENTITY, fidelity_chart
from raptor.evaluation.nulls import TEACHER
from raptor.evaluation.summary.headline import fair_r2
from raptor.evaluation.summary.naming import label
from raptor.render.charts import HEIGHT, PALETTE, WIDTH, Figure, Row, chart_of
from raptor.render.registry import figure, figure_of_runs
from raptor.render.tables import stored_note
from raptor.runtime.rundir import Record

MEASURES = {"r2": "R2", "robust_r2": "robust R2", "skill": "skill", "cosine": "cosine with the teacher's token"}
GREY = "#777777"
# What a point is, with its colour and shape, in the order of the legend.
KINDS = {
    "teacher": ("#000000", "square"),
    "surrogate": ("#0072B2", "circle"),
    "untied control": ("#E69F00", "diamond"),
    "affine map in place of one phase": ("#009E73", "triangle-up"),
    "surrogate of a control network": ("#D55E00", "cross"),
    "surrogate, trained as long as those of control networks": ("#56B4E9", "circle"),
    "identity": (GREY, "triangle-down"),
}
Records = Mapping[str, Sequence[Record[Any]]]


@figure("fidelity", "fidelity", None, CAPTION, wide=True)
def fidelity(result: FidelityResult, name: str) -> Figure | None:
    """Draw fidelity by layer; `name` is the teacher's."""
    if result.phases is None:
        return None
    return Figure(fidelity_chart(result.by_layer, result.phases, f"Surrogate {result.phases} of {name}"))


@figure_of_runs(
    "surrogates-fidelity", "surrogate",
    "First: R2, the share of the variance of the teacher's tokens over images that a surrogate reproduces, or robust "
    "R2, where a few outlier tokens hold most of the variance. Dashed grey, beside R2: tokens that stay as the "
    "teacher's are at the start of the phase. Values below -0.2 are drawn at -0.2. Second: skill, 1 - error / error of "
    "a model that leaves the embedding unchanged. Third: cosine between tokens. 1 is perfect in all three.",
    order=10, title="How close are the surrogates to the teacher, layer by layer?",
    beside="How close are the surrogates to the teachers, layer by layer?",
)  # fmt: skip
def surrogates_fidelity(records: Records) -> Figure | None:
    """Draw R2, skill and cosine of all surrogates by layer, one panel each."""
    measured = list(records.get("fidelity", ()))
    if not measured:
        return None
    names = [label(record) for record in measured]
    robust = any(fair_r2(record.result) != "r2" for record in measured)
    baselines = {} if robust else {IDENTITY: GREY}
    colours = alt.Scale(domain=[*names, *baselines], range=[*_colours(len(names)), *baselines.values()])
    panels, rows = [], []
    for measure, title in MEASURES.items():
        if measure == ("r2" if robust else "robust_r2"):
            continue
        own = [row for record in measured for row in _by_layer(record, measure, label(record))]
        if measure == "r2":
            own += _by_layer(measured[-1], "r2_identity", IDENTITY)
        if own:
            rows += own
            panels.append(_lines(own, title, colours).properties(title=title))
    title = alt.Title("Fidelity of the surrogates", subtitle=f"n = {measured[0].images} held-out images")
    return Figure(alt.hconcat(*panels).add_params(alt.param("group", value="all")).properties(title=title), rows)


def _by_layer(record: Record[FidelityResult], measure: str, name: str) -> list[Row]:
    found = record.result.by_layer.get(measure)
    return [] if found is None else [
        {"surrogate": name, "measure": measure, "group": group, "layer": layer, "value": value, "low": low,
         "high": high}
        for group in found.groups
        for layer, (value, low, high) in enumerate(
            zip(found.mean[group], found.low[group], found.high[group], strict=True), 1
        )
    ]  # fmt: skip


def _lines(rows: list[Row], title: str, colours: alt.Scale) -> alt.LayerChart:
    base = chart_of(rows).transform_filter("datum.group == group")
    x = alt.X("layer:Q", title="layer", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(domainMin=-0.2, domainMax=1, clamp=True))
    colour = alt.Color("surrogate:N", title="surrogate", scale=colours, legend=alt.Legend(symbolOpacity=1))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    dash = alt.condition(f"datum.surrogate == '{IDENTITY}'", alt.value([4, 4]), alt.value([1, 0]))
    band = base.mark_area(opacity=0.18, clip=True).encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    line = base.mark_line(point=True).encode(
        x=x, y=y, color=colour, strokeDash=dash, tooltip=["surrogate:N", "layer:Q", *numbers]
    )
    return alt.layer(band, line).properties(width=WIDTH, height=HEIGHT)


@figure_of_runs(
    "surrogates-cost", "surrogate",
    "First and second: top-1 accuracy by the number of parameters in blocks and by measured run time, both relative to "
    "the teacher. Third: skill at the last layer by the number of parameters. Control networks have no recurrence, and "
    "their surrogates have a short training: compare them with the surrogate that was trained as long. Bars: 95% "
    "intervals over images.",
    order=20, title="What does a surrogate cost, and what does it lose?",
)  # fmt: skip
def surrogates_cost(records: Records) -> Figure | None:
    """Draw accuracy and skill of everything that was measured by what it costs."""
    measured = list(records.get("fidelity", ()))
    if not measured:
        return None
    rows = [row for record in measured for row in _points(record)]
    width = next((record.result.width for record in records.get("inspect", ())), None)
    rows += [] if width is None else _linear(measured[-1], width)
    rows += [row for record in records.get("table1", ()) for row in _untied(record)]
    seen = list(dict.fromkeys(row["kind"] for row in rows))
    panels = []
    for x, y, axes, title in (
        ("parameters", "top1", ("parameters in blocks / teacher's", "top-1 accuracy"), "accuracy by parameters"),
        ("runtime", "top1", ("run time / teacher's", "top-1 accuracy"), "accuracy by run time"),
        ("parameters", "skill", ("parameters in blocks / teacher's", "skill at the last layer"), "skill by parameters"),
    ):
        own = [row for row in rows if row.get(x) is not None and row["measure"] == y]
        if own:
            panels.append(_scatter(own, x, axes, title, seen))
    if not panels:
        return None
    stored = next((record.result.nulls_from for record in measured if record.result.nulls_from), None)
    about = [
        f"n = {measured[0].images} held-out images",
        *(f"Control networks: {one[0].lower()}{one[1:]}" for one in stored_note(stored)),
    ]
    title = alt.Title("Cost and accuracy", subtitle=about)
    return Figure(alt.hconcat(*panels).properties(title=title), rows)


def _point(kind: str, name: str, measure: str, value: Estimate[float], parameters: float, runtime: Any = None) -> Row:
    return {"kind": kind, "name": name, "measure": measure, "value": value.value, "low": value.low, "high": value.high,
            "parameters": parameters, "runtime": runtime}  # fmt: skip


def _points(record: Record[FidelityResult]) -> list[Row]:
    """Return the points of a surrogate, of its teacher and of control networks."""
    result, name = record.result, label(record)
    share, time = result.parameters.ratio, result.runtime_ratio
    exact = Estimate(1.0, 1.0, 1.0)
    rows = [_point("teacher", "teacher", "skill", exact, 1.0, 1.0)]
    if result.teacher_top1 is not None and result.surrogate_top1 is not None:
        rows.append(_point("teacher", "teacher", "top1", result.teacher_top1, 1.0, 1.0))
        rows.append(_point("surrogate", name, "top1", result.surrogate_top1, share, time))
    if "skill" in result.by_layer:
        rows.append(_point("surrogate", name, "skill", result.by_layer["skill"].at("all", -1), share, time))
        rows.append(_point("identity", "embedding unchanged", "skill", Estimate(0.0, 0.0, 0.0), 0.0))
    nulls = []
    for null, one in (result.nulls or {}).items():
        own = null == TEACHER
        kind = "surrogate, trained as long as those of control networks" if own else "surrogate of a control network"
        nulls.append(_point(kind, kind if own else f"{kind}: {null}", "skill", one.skill.at("all", -1), share))
    return rows + nulls  # crosses over dots: both can be seen


def _linear(record: Record[FidelityResult], width: int) -> list[Row]:
    """Return affine maps in place of one phase: the teacher without the layers of the phase, and one matrix."""
    found, phases = record.result.linear, record.result.phases
    if found is None or phases is None or found.endpoint.top1 is None:
        return []
    top1, blocks = found.endpoint.top1, record.result.parameters.teacher
    return [
        _point(
            "affine map in place of one phase", f"affine map in place of phase {at + 1}", "top1",
            Estimate(top1.value[at], top1.low[at], top1.high[at]),
            1 - length / phases.depth + width * (width + 1) / blocks,
        )
        for at, length in enumerate(phases.lengths)
    ]  # fmt: skip


def _untied(record: Record[Any]) -> list[Row]:
    """Return the untied controls of Table 1: as many blocks, each applied once."""
    rows = record.result.rows
    teacher = next((row.parameters for row in rows if row.kind == "teacher"), None)
    return [] if teacher is None else [
        _point("untied control", row.row, "top1", row.scores["top1"], row.parameters / teacher)
        for row in rows
        if row.kind == "untied" and row.scores.get("top1") is not None
    ]  # fmt: skip


def _scatter(rows: list[Row], x: str, axes: tuple[str, str], title: str, seen: Sequence[str]) -> alt.LayerChart:
    kinds = [kind for kind in KINDS if kind in seen]
    base = chart_of(rows).encode(
        x=alt.X(f"{x}:Q", title=axes[0], scale=alt.Scale(domainMin=0, nice=False, padding=12)),
        color=alt.Color(
            "kind:N", title="point", scale=alt.Scale(domain=kinds, range=[KINDS[kind][0] for kind in kinds])
        ),
    )
    low = min(0.0, *(row["value"] for row in rows))
    y = alt.Y("value:Q", title=axes[1], scale=alt.Scale(domain=[max(low, -0.2), 1.0], clamp=True, padding=12))
    shape = alt.Shape("kind:N", legend=None, scale=alt.Scale(domain=kinds, range=[KINDS[kind][1] for kind in kinds]))
    numbers = [alt.Tooltip(f"{name}:Q", format=".3f") for name in (x, "value", "low", "high")]
    marks = base.mark_point(filled=True, size=110, opacity=0.9).encode(y=y, shape=shape, tooltip=["name:N", *numbers])
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title=axes[1]), y2="high:Q")
    return alt.layer(bars, marks).properties(width=WIDTH, height=HEIGHT, title=title)


def _colours(n: int) -> list[str]:
    order = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", *PALETTE)
    return [order[i % len(order)] for i in range(n)]
