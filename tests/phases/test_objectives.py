"""An objective that one function registers is everywhere: terminal, result.json, page, help and documentation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import raptor
from raptor.phases import objectives
from raptor.phases.objectives import OBJECTIVES, objective
from raptor.phases.options import PhasesOptions

MATRIX = "tests/data/dinov2b_reg_cosine_distance.csv"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(objectives, "OBJECTIVES", OBJECTIVES.copy())

    @objective("toy", "twice the mean over layers", lambda total, k, matrix: 2 * total / len(matrix))
    def value(sums, lengths):
        return sums / lengths

    return value


def test_a_registered_objective_is_on_the_terminal_in_the_result_and_on_the_page(call, toy, tmp_path):
    run = tmp_path / "run"
    arguments = ("phases", "--matrix", MATRIX, "--distance", "--k", "3", "--objective", "toy", "--out", run)
    code, out, _ = call(*arguments)
    assert code == 0
    assert "score (toy)" in out
    result = json.loads((run / "result.json").read_text())
    assert (result["objective"], result["phases"]) == ("toy", "7-3-2")
    assert result["score"] == pytest.approx(2 * raptor.segment(1 - np.loadtxt(MATRIX, delimiter=","), 3).score)
    code, _, _ = call("report", run, "--out", tmp_path / "report.html")
    assert code == 0
    assert "score of the best partition (toy)" in (tmp_path / "report.html").read_text()


def test_an_unknown_objective_is_an_error_that_lists_the_registered_ones(call, toy):
    code, _, err = call("phases", "--matrix", MATRIX, "--distance", "--objective", "worst")
    assert code == 2
    assert all(name in err for name in (*OBJECTIVES, "toy", "worst"))


def test_help_and_documentation_have_every_objective(call):
    _, out, _ = call("phases", "--help")
    pages = [(DOCS / page).read_text() for page in ("phases.md", "objectives.md")]
    for name, one in OBJECTIVES.items():
        assert f"{name} ({one.summary[:10]}" in " ".join(out.split())
        assert all(f"| `{name}`" in page for page in pages)
    assert PhasesOptions().objective in OBJECTIVES
