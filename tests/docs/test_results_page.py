"""The page of results says what the kept files say, and what is missing."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from raptor.core.estimate import Estimate
from raptor.core.serialize import to_json
from raptor.runtime.rundir import Record
from raptor.studies.analysis import smallest_detected
from raptor.studies.options import STUDY_ORDER
from raptor.studies.registry import load_studies
from raptor.studies.study import JobReport, StudyResult, StudySize
from study_results import condition, done, setting

DOCS = Path(__file__).parents[2] / "docs"
TOOLS = DOCS.parent / "tools"
STUDIES = load_studies()


@pytest.fixture
def written(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return runpy.run_path(str(TOOLS / "write_results.py"))


@pytest.fixture
def sections(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return runpy.run_path(str(TOOLS / "study_sections.py"))


def test_the_page_is_written_from_the_files(written):
    assert (DOCS / "results.md").read_text() == written["page"]()


@pytest.mark.parametrize("file", sorted((DOCS / "results").rglob("*.json")), ids=lambda file: file.stem)
def test_kept_files_name_no_place_of_a_machine(file):
    text = file.read_text()
    json.loads(text)
    assert not re.search(r'"/|[A-Za-z]:\\\\', text)


def test_means_have_the_intervals_of_their_rows(sections):
    rows = [{"by": "even", "r2": value} for value in (0.1, 0.2, 0.4)] + [{"by": "fit", "r2": None}]
    low, high = stats.ttest_1samp((0.1, 0.2, 0.4), 0).confidence_interval()
    lines = sections["table"](rows, "by", ("r2",)).splitlines()
    assert lines[2:] == [f"| even | 3 | 0.233 [{low:.3f}, {high:.3f}] |", "| fit | 1 | nan |"]


def test_students_of_one_teacher_are_averaged_first(sections):
    values = {0: (0.1, 0.3), 1: (0.4, 0.5), 2: (0.6, 0.8)}
    rows = [{"by": "random", "seed": seed, "r2": value} for seed, own in values.items() for value in own]
    low, high = stats.ttest_1samp((0.2, 0.45, 0.7), 0).confidence_interval()
    assert sections["table"](rows, "by", ("r2",)).splitlines()[2:] == [
        f"| random | 3 | 0.450 [{low:.3f}, {high:.3f}] |"
    ]


def test_other_intervals_are_those_of_scipy(sections, tmp_path):
    treated, control = (0.31, 0.36, 0.44), (0.21, 0.19, 0.2)
    results = {}
    for seed in range(3):
        results |= condition("tied", seed, 0.5 + treated[seed], 0.5) | condition(
            "random", seed, 0.5 + control[seed], 0.5
        )
    keep(tmp_path, "controls", results, [])
    section = section_of(sections["study_pages"](tmp_path), "Other intervals")
    ends = [
        test.confidence_interval()
        for test in (stats.ttest_ind(treated, control), stats.ttest_ind(treated, control, equal_var=False),
                     stats.ttest_rel(treated, control))
    ]  # fmt: skip
    (line,) = [one for one in section.splitlines() if "excess of tied less random" in one]
    assert line.endswith("| 0.170 | " + " | ".join(f"[{low:.3f}, {high:.3f}]" for low, high in ends) + " |")


def keep(folder, name, results, jobs, **claim):
    """Write the result of a study whose finished jobs are known."""
    used = setting(seeds=(0, 1, 2))
    summary = STUDIES[name].summarise(used, done(results))
    size, claim = StudySize("smoke", used.size), replace(summary.claim, **claim)
    result = StudyResult(name, "cifar100", size, jobs, summary.rows, claim)
    (folder / name).mkdir()
    (folder / name / "result.json").write_text(to_json(Record(1, "study", "", 0, 24, 7, 1.0, result)))


def subset_results(seeds):
    results = {}
    for seed in seeds:
        results |= condition("standard", seed, 0.8 + 0.01 * seed, 0.5) | condition("subset", seed, 0.6, 0.5)
    return results


def section_of(page, title):
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_a_section_has_the_claim_the_table_the_figure_and_the_mixed_model(sections, tmp_path):
    jobs = [JobReport("teachers/standard-s0", 3600.0, None), JobReport("a", 1800.0, None)]
    keep(tmp_path, "overfitting", subset_results((0, 1, 2)), jobs, mixed=Estimate(0.21, 0.2, 0.22, 6))
    (tmp_path / "overfitting" / "overfitting.svg").write_text("<svg/>")
    page = sections["study_pages"](tmp_path)
    assert "2 jobs took 1.5 hours in total, each on one core.\n" in page
    section = section_of(page, "Does overfitting make depth less recurrent?")
    assert 'The claim "overfitting makes depth less recurrent" holds. Excess of skill' in section
    assert "Mixed model with the seed of the teacher as random effect: 0.210 [0.200, 0.220]." in section
    assert "| subset | 3 | 0.500 [0.500, 0.500] | 0.100 [0.100, 0.100] |" in section
    assert f"({tmp_path.name}/overfitting/overfitting.svg)" in section
    assert "not measured yet" not in section
    assert "| holds | 0.210 [" in section_of(page, "Overview")


def test_what_is_missing_is_not_measured_yet(sections, tmp_path):
    """Nothing at all, a study that was not started, and one of which a job is missing."""
    empty = sections["study_pages"](tmp_path)
    assert empty.count("**raptor.** Not measured yet.") == len(STUDY_ORDER)
    assert "No job has a result yet." in empty
    jobs = [JobReport("teachers/standard-s0", 3600.0, None), JobReport("teachers/subset-s2", None, "not measured yet")]
    jobs.append(JobReport("b", None, "TrainingError: it broke"))
    keep(tmp_path, "overfitting", subset_results((0, 1)), jobs)
    keep(tmp_path, "controls", {}, jobs)
    keep(tmp_path, "emergence", condition("standard", 0, 0.8, 0.5), jobs)
    page = sections["study_pages"](tmp_path)
    assert "1 jobs took 1.0 hours in total, each on one core; 2 more are not measured yet.\n" in page
    section = section_of(page, "Does overfitting make depth less recurrent?")
    assert "1 of 3 jobs are not measured yet, so these numbers are preliminary." in section
    assert "Failed jobs: b (TrainingError: it broke)." in section
    assert "The figure is not measured yet." in section
    assert "**raptor.** Not measured yet." in section_of(page, "Can the outcome be trusted?")
    assert 'The claim "training makes depth more recurrent" is not measured yet; the table has' in page
    assert page.count("| not measured yet |") == len(STUDY_ORDER) - 1 + 4  # in the overview, and of the power


def test_power_comes_from_the_measured_variances(sections, tmp_path):
    results = {}
    for seed, noise in enumerate((0.0, 0.03, 0.09)):
        results |= condition("standard", seed, 0.7 + noise, 0.5) | condition("drop0.4", seed, 0.8 + noise, 0.5)
    keep(tmp_path, "stochastic-depth", results, [])
    section = section_of(sections["study_pages"](tmp_path), "Power")
    deviation = stats.tstd((0.0, 0.03, 0.09))
    smallest = smallest_detected(deviation, 3)
    lines = [line for line in section.splitlines() if "stochastic-depth" in line]
    assert [line.split(" | ")[1] for line in lines] == [
        "excess of drop0.4 less standard",
        "r2 of drop0.4 less standard",
    ]
    for line in lines:
        assert f"| {deviation:.4f} | {smallest:.3f} (n = 3) | 0.06 |" in line
    needed = int(lines[0].split(" | ")[-1].rstrip(" |"))
    assert smallest_detected(deviation, needed) < 0.062
    assert smallest_detected(deviation, needed - 1) > 0.058


def test_every_study_has_a_section_with_columns_that_it_has(sections):
    assert tuple(sections["SECTIONS"]) == STUDY_ORDER
    assert set(sections["PAPER"]) == set(sections["LIMITS"]) == set(STUDY_ORDER)
    for name, (_, group, measures) in sections["SECTIONS"].items():
        row = type(STUDIES[name]).__orig_bases__[0].__args__[0]
        assert {group, *measures} <= set(row.__dataclass_fields__)
