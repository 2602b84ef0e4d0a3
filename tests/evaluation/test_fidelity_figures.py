"""Figures of fidelity hold the measured numbers, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from raptor.core.estimate import LayerEstimates
from raptor.core.phases import Phases
from raptor.evaluation.fidelity_chart import IDENTITY, SHUFFLED, fidelity_chart
from raptor.evaluation.summary.naming import OWN, surrogate_name
from raptor.render import charts as drawing
from raptor.runtime.rundir import SCHEMA, Record

MEASURES = ("r2", "r2_identity", "pearson2", "pearson2_shuffled")


def measured(seed, groups=("cls", "patch", "all"), layers=4):
    draw = np.random.default_rng(seed)
    return {
        name: LayerEstimates(
            *({group: draw.random(layers).tolist() for group in groups} for _ in range(3)), n=7, seed=seed
        )
        for name in MEASURES
    }


def drawn(chart):
    """Collect the rows of a chart: name -> layer -> (value, low, high)."""
    found = {}

    def walk(node):
        if isinstance(node, dict):
            for row in node.get("values", []) if isinstance(node.get("values"), list) else []:
                if isinstance(row, dict) and "layer" in row:
                    found.setdefault(row["name"], {})[row["layer"]] = (row["value"], row["low"], row["high"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(chart.to_dict())
    return found


def rows(one, name, group):
    values = (one[name].mean[group], one[name].low[group], one[name].high[group])
    return dict(enumerate(zip(*values, strict=True), 1))


def test_every_group_is_drawn_with_its_interval_beside_what_it_must_beat():
    one = measured(0)
    chart = fidelity_chart(one, Phases((3, 1)), "title")
    for panel, measure, name, least in zip(
        chart.hconcat, ("r2", "pearson2"), (IDENTITY, SHUFFLED), MEASURES[1::2], strict=True
    ):
        wanted = {group: rows(one, measure, group) for group in ("cls", "patch")}
        wanted[name] = rows(one, least, "all")
        assert drawn(panel) == wanted
    text = chart.to_json()
    assert "3.5" in text  # the boundary between the phases
    assert "n = 7" in text


def test_the_table_of_a_figure_has_every_row_once():
    rows = [{"layer": 1, "value": 0.5}, {"layer": 2, "value": 0.25}]
    line = {"data": {"values": rows}, "mark": "line"}
    spec = {"vconcat": [{"layer": [line, {**line, "mark": "area"}]}, {"data": {"values": [{"cut": 1.5}]}}]}
    assert drawing.rows_in(spec) == [*rows, {"cut": 1.5}]
    assert drawing.table(drawing.rows_in(spec)) == "layer,value,cut\n1,0.5,\n2,0.25,\n,,1.5\n"


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("run/distill", True),  # the pipeline ran in another working directory
        ("{out}/run/distill", True),
        ("elsewhere/run/distill", False),  # another run of the same name
        ("{out}/other/run/distill", False),
        ("run/other", False),
    ],
)
def test_only_the_surrogate_of_the_same_pipeline_was_trained_in_this_run(given, own, tmp_path):
    folder = tmp_path / "run" / "fidelity-1"
    about = {"surrogate": given.format(out=tmp_path)}
    record = Record(SCHEMA, "fidelity", "0", 0, 1, 4, 1.0, None, about=about, out=folder)
    assert (surrogate_name(record) == OWN) is own
