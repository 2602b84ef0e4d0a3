"""What results look like in a notebook: a sentence or a table, and a figure."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import altair as alt
from markupsafe import Markup, escape

from raptor.dynamics.survey import Dynamics
from raptor.dynamics_claims import claims
from raptor.evaluation import Evaluation
from raptor.formatting import HELD
from raptor.phase_result import describe_phases
from raptor.probes.probe import Probed
from raptor.reporting import layer_figures, phase_figures
from raptor.run import to_json
from raptor.selection import FoundPhases


@singledispatch
def html(result: Any) -> str:
    """Return a result as html."""
    return f"<pre>{escape(repr(result))}</pre>"


@html.register
def _phases(result: FoundPhases) -> str:
    words = Markup("").join(Markup("<p>{}</p>").format(word) for word in describe_phases(result)["words"])
    return words + _drawn(phase_figures.similarity(result, "Similarity between layers"))


@html.register
def _fidelity(result: Evaluation) -> str:
    r2 = result.by_layer.mean["r2"]
    rows = [[group, *(f"{value:.3f}" for value in values)] for group, values in r2.items()]
    layers = [str(layer) for layer in range(1, len(rows[0]))]
    return Markup("<p>{}</p>").format(str(result)) + _table(["R2 of layer", *layers], rows)


@html.register
def _dynamics(result: Dynamics) -> str:
    rows = [[claim["text"], HELD[claim["held"]], claim["evidence"]] for claim in claims(result)]
    figure = layer_figures.by_layer(result.curves["speed"], "Angular speed", "radians", layer_figures.STEPS)
    return _table(["the paper", "here", "evidence"], rows) + _drawn(figure.chart)


@html.register
def _probed(result: Probed) -> str:
    metrics = list(next(iter(result.columns.values())).value)
    rows = [
        [name, *(f"{column.value[m]:.3f} [{column.ci[m][0]:.3f}, {column.ci[m][1]:.3f}]" for m in metrics)]
        for name, column in result.columns.items()
    ]
    return _table(["head", *metrics], rows)


def _table(columns: list[str], rows: list[list[str]]) -> Markup:
    line = Markup("<tr>{}</tr>")
    head = line.format(Markup("").join(Markup("<th>{}</th>").format(column) for column in columns))
    body = [line.format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row)) for row in rows]
    return Markup("<table>{}{}</table>").format(head, Markup("").join(body))


def _drawn(chart: alt.LayerChart) -> Markup:
    import vl_convert

    return Markup(vl_convert.vegalite_to_svg(to_json(chart.to_dict())))
