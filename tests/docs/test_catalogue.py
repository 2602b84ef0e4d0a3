"""The catalogue of the documentation is written from the registries."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def catalogue(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.delitem(sys.modules, "catalogue", raising=False)
    import catalogue

    return catalogue


def test_every_mark_of_the_page_becomes_a_table_with_what_is_registered(catalogue):
    page = (ROOT / "docs" / "catalogue.md").read_text()
    filled = catalogue.on_page_markdown(page)
    assert "<!--" not in filled
    for name in ("distill", "weighted", "speed", "relative_epsilon", "segment", "partitions", "interventions"):
        assert f"`{name}`" in filled
    assert set(re.findall(r"catalogue: (\w+)", page)) == set(catalogue.TABLES)


def test_a_new_objective_appears_without_a_change_to_the_documentation(catalogue, monkeypatch):
    from raptor.phases import objectives

    monkeypatch.setattr(objectives, "OBJECTIVES", dict(objectives.OBJECTIVES))
    objectives.objective("longest", "length of the longest phase", lambda total, k, matrix: total)(
        lambda sums, lengths: lengths
    )
    assert "| `longest` | length of the longest phase |" in catalogue.objectives()
