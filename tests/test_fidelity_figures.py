"""Figures of fidelity hold the measured numbers, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from raptor.fidelity_by_layer import Fidelity
from raptor.phases import Phases
from raptor.reporting import drawing, fidelity_figures


def measured(seed, groups=("cls", "patch", "all"), layers=4):
    draw = np.random.default_rng(seed)
    parts = [
        {name: {group: draw.random(layers).tolist() for group in groups} for name in ("r2", "r2_identity")}
        for _ in range(3)
    ]
    return Fidelity(*parts, n=7, seed=seed)


def drawn(chart):
    """Collect the rows of every layer of a chart: name -> layer -> (value, low, high)."""
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
    values = (one.mean[name][group], one.low[name][group], one.high[name][group])
    return dict(enumerate(zip(*values, strict=True), 1))


def test_every_group_is_drawn_with_its_interval_beside_standing_still():
    one = measured(0)
    chart = fidelity_figures.by_group(one, Phases((3, 1)), "title")
    wanted = {group: rows(one, "r2", group) for group in ("cls", "patch")}
    wanted[fidelity_figures.STILL] = rows(one, "r2_identity", "all")
    assert drawn(chart) == wanted
    text = chart.to_json()
    assert "3.5" in text  # the boundary between the phases
    assert "n = 7" in text


@pytest.mark.parametrize("n", [1, 3])
def test_surrogates_are_drawn_side_by_side(n):
    several = {f"surrogate {seed}": measured(seed) for seed in range(n)}
    chart = fidelity_figures.side_by_side(several, "title")
    assert drawn(chart) == {name: rows(one, "r2", "all") for name, one in several.items()}


def test_the_table_of_a_figure_has_every_row_once():
    rows = [{"layer": 1, "value": 0.5}, {"layer": 2, "value": 0.25}]
    line = {"data": {"values": rows}, "mark": "line"}
    spec = {"vconcat": [{"layer": [line, {**line, "mark": "area"}]}, {"data": {"values": [{"cut": 1.5}]}}]}
    assert drawing.rows_in(spec) == [*rows, {"cut": 1.5}]
    assert drawing.table(drawing.rows_in(spec)) == "layer,value,cut\n1,0.5,\n2,0.25,\n,,1.5\n"
