"""What figures of phases share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import altair as alt

from raptor.phases.form.candidates import BLOCKS, KIND_NAMES, CandidateFit, Structure
from raptor.phases.result import PhasesResult
from raptor.render.charts import Figure, Row, chart_of
from raptor.render.registry import figure

VERB = "phases"
Draw = Callable[[PhasesResult, str], Figure | None]

COLOURS = ["#0072B2", "#009E73", "#D55E00"]


def model_figure(name: str, section: str | None, caption: str, **how: Any) -> Callable[[Draw], Draw]:
    """Register a figure of one model; `how` is as in `figure`. Of several models, it is drawn for each."""

    def register(draw: Draw) -> Draw:
        @figure(VERB, name, section, caption, **how)
        def drawn(result: Any, model: str) -> Figure | None:
            return draw(result, model) if isinstance(result, PhasesResult) else None

        return draw

    return register


def readable(name: str) -> str:
    """Return the name of a candidate model in the words that people read."""
    return next((name.replace(kind, words, 1) for kind, words in KIND_NAMES.items() if _names(name, kind)), name)


def _names(name: str, kind: str) -> bool:
    """Whether a name begins with its kind, as in `drift`, or ends with it, as in `3 blocks`."""
    return name.startswith(kind) or (kind == BLOCKS and name.endswith(f" {kind}"))


def _readable_in_chart(name: str) -> str:
    """Return `readable` as an expression of Vega: rows keep the names of result.json."""
    cases = (
        f"indexof({name}, '{kind}') {'>=' if kind == BLOCKS else '=='} 0 ? replace({name}, '{kind}', '{words}') : "
        for kind, words in KIND_NAMES.items()
    )
    return "".join(cases) + name


def candidate_rows(candidates: Iterable[tuple[str, str, CandidateFit]]) -> list[Row]:
    """Return one row per candidate model, given as (kind, name, fit)."""
    rows = []
    for kind, name, fit in candidates:
        low, high = (fit.error, fit.error) if fit.held_out is None else fit.held_out.ci
        rows.append({"kind": kind, "name": name, "parameters": fit.parameters, "error": fit.error, "low": low,
                     "high": high})  # fmt: skip
    return rows


def candidate_axes(rows: list[Row], structure: Structure) -> tuple[alt.Chart, alt.Chart, alt.Chart]:
    """Return the base of a chart of errors by number of parameters, its points, and its intervals."""
    legend = alt.Legend(title="model of similarity", labelExpr=_readable_in_chart("datum.label"))
    domain = list(KIND_NAMES)
    base = (
        chart_of(rows)
        .transform_calculate(label=_readable_in_chart("datum.name"))
        .encode(
            x=alt.X("parameters:Q", title="parameters", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(zero=True)),
            color=alt.Color("kind:N", legend=legend, scale=alt.Scale(domain=domain, range=COLOURS)),
        )
    )
    error = "residual" if structure.floor is None else "error on held-out images"
    errors = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("error", "low", "high")]
    points = base.mark_point(size=80, filled=True).encode(
        y=alt.Y("error:Q", title=error, scale=alt.Scale(zero=True)),
        shape=alt.Shape("kind:N", legend=legend, scale=alt.Scale(domain=domain)),
        tooltip=[alt.Tooltip("label:N", title="model"), "parameters:Q", *errors],
    )
    return base, points, base.mark_rule().encode(y="low:Q", y2="high:Q")
