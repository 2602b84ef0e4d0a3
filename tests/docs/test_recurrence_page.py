"""The page of the studies' results says what the result files say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from scipy import stats

from raptor.core.serialize import to_json
from raptor.runtime.rundir import Record
from raptor.studies.registry import load_studies
from raptor.studies.study import JobReport, StudyResult, StudySize
from study_results import condition, done, setting

TOOLS = Path(__file__).parents[2] / "tools"
STUDIES = load_studies()


@pytest.fixture
def written(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return runpy.run_path(str(TOOLS / "write_recurrence.py"))


def test_means_have_the_intervals_of_their_rows(written):
    rows = [{"by": "even", "r2": value} for value in (0.1, 0.2, 0.4)] + [{"by": "fit", "r2": None}]
    low, high = stats.ttest_1samp((0.1, 0.2, 0.4), 0).confidence_interval()
    lines = written["table"](rows, "by", ("r2",)).splitlines()
    assert lines[2:] == [f"| even | 3 | 0.233 [{low:.3f}, {high:.3f}] |", "| fit | 1 | nan |"]


def test_a_section_has_the_claim_the_table_and_the_figure(written, tmp_path):
    results = {}
    for seed in (0, 1):
        results |= condition("standard", seed, 0.8 + 0.01 * seed, 0.5) | condition("subset", seed, 0.6, 0.5)
    used = setting()
    summary = STUDIES["overfitting"].summarise(used, done(results))
    jobs = [JobReport("teachers/standard-s0", 3600.0, None), JobReport("a", 1800.0, None)]
    result = StudyResult("overfitting", "cifar100", StudySize("smoke", used.size), jobs, summary.rows, summary.claim)
    (tmp_path / "overfitting").mkdir()
    (tmp_path / "overfitting" / "result.json").write_text(to_json(Record(1, "study", "", 0, 24, 7, 1.0, result)))
    page = written["page"](tmp_path)
    assert "2 jobs took 1.5 hours" in page
    assert 'The claim "overfitting makes depth less recurrent" holds. Excess of skill' in page
    assert "| subset | 2 | 0.500 [0.500, 0.500] | 0.100 [0.100, 0.100] |" in page
    assert f"({tmp_path.name}/overfitting/overfitting.svg)" in page
    assert "## Does training" not in page


def test_every_study_has_a_section_with_columns_that_it_has(written):
    assert set(written["SECTIONS"]) == set(STUDIES)
    for name, (_, group, measures) in written["SECTIONS"].items():
        row = type(STUDIES[name]).__orig_bases__[0].__args__[0]
        assert {group, *measures} <= set(row.__dataclass_fields__)
