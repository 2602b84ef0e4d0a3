"""Numbers on the page are those of the result files, all of them."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from raptor.core.phases import Phases
from raptor.reporting.collect import collect
from raptor.reporting.depth import depth_of
from raptor.reporting.page import render
from raptor.reporting.write import write_page
from raptor.runtime.verbs import import_features


class Numbers(HTMLParser):
    """Collects every number with its run and key, and what is shown of it."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open = [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "data":
            self._open = dict(attributes)

    def handle_data(self, text):
        if self._open is not None:
            self.found.append((self._open["data-run"], self._open["data-key"], self._open["value"], text))
            self._open = None


def stored(result, key):
    """Return what stands under a key; names may have a slash in them."""
    if not key:
        return result
    parts = key.split("/")
    for end in range(1, len(parts) + 1):
        name = "/".join(parts[:end])
        if isinstance(result, dict) and name in result:
            return stored(result[name], "/".join(parts[end:]))
    return stored(result[int(parts[0])], "/".join(parts[1:]))


def test_every_number_is_that_of_its_result_file(demo_run):
    numbers = Numbers((demo_run / "report.html").read_text()).found
    assert len(numbers) > 300
    results = {run: json.loads((demo_run / run / "result.json").read_text()) for run, *_ in numbers}
    for run, key, value, shown in numbers:
        there = stored(results[run], key)
        if isinstance(there, (int, float)):
            assert float(value) == pytest.approx(there, rel=1e-12), (run, key)
            read = float(re.sub(r"[,%]", "", shown)) / (100 if shown.endswith("%") else 1)
            digits = len(shown.rstrip("%").partition(".")[2]) + 2 * shown.endswith("%")
            assert math.isclose(read, there, abs_tol=0.51 * 10.0**-digits), (run, key, shown)
        else:
            assert value == str(there), (run, key)


def test_the_first_screen_has_five_numbers_with_their_runs(demo_run):
    page = (demo_run / "report.html").read_text()
    assert re.findall(r'class="tile" data-tile="(\w+)"', page) == [
        "phases",
        "recovered",
        "trajectory",
        "parameters",
        "runtime",
    ]
    top = page[: page.index('id="controls"')]
    found = {(run, key) for run, key, *_ in Numbers(top).found}
    # Of the surrogates, not the one that was trained for a moment.
    assert ("fidelity-3", "recovered") in found
    assert ("fidelity-3", "skill_ci/all/1/-1") in found
    assert ("fidelity-3", "runtime_range/0") in found
    assert ("phases", "phases") in found


def data_of(page):
    """Return what the page's script reads."""
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)[1])


def test_every_number_has_an_address_from_the_page(demo_run, tmp_path):
    page = (demo_run / "report.html").read_text()
    files = data_of(page)["files"]["m0"]
    for run, *_ in Numbers(page).found:
        assert (demo_run / unquote(files[run])).samefile(demo_run / run / "result.json")
    runs = shutil.copytree(demo_run / "phases", tmp_path / "a #1?" / "phases")
    other = tmp_path / "pages" / "page.html"
    write_page([runs], other)
    ((name, address),) = data_of(other.read_text())["files"]["m0"].items()
    assert (name, address) == ("phases", "../a%20%231%3F/phases/result.json")
    assert data_of(render(collect([runs])))["files"] == {}  # a page that lies nowhere has no links


def test_the_top_says_why_there_are_as_many_phases(demo_run):
    top = (demo_run / "report.html").read_text().partition('id="controls"')[0]
    why = Numbers(top[top.index("Why k = ") :]).found[0]
    assert why[:2] == ("phases", "useful_k")


def test_the_ruler_knows_the_phases_of_surrogates(demo_run):
    """The phases that were found and those of the surrogate that figures show may differ."""
    import_features("command")
    (subject,) = collect([demo_run])
    found, shown = depth_of(subject), subject.of("dynamics")[0].record.result.against.models
    (run,) = (run for run in subject.of("fidelity") if run.record.about["surrogate"] in shown)
    phases = run.record.result.phases
    assert found.surrogates[phases.k] == list(phases.lengths)
    other = Phases((1,) * (phases.k - 1) + (found.layers - phases.k + 1,))
    record = replace(run.record, result=replace(run.record.result, phases=other))
    subject.runs[subject.runs.index(run)] = replace(run, record=record)
    assert depth_of(subject).surrogates == {**found.surrogates, phases.k: list(other.lengths)}
    assert depth_of(subject).partitions == found.partitions


def test_panels_have_the_numbers_of_the_result_files(demo_run):
    page = (demo_run / "report.html").read_text()
    data = data_of(page)
    dynamics = json.loads((demo_run / "dynamics" / "result.json").read_text())
    (speed,) = (one for one in data["figures"].values() if one["name"] == "speed")
    rows = [
        row for panel in speed["panels"] for part in panel["layer"] for row in part["data"]["values"] if "role" in row
    ]
    teacher = {(row["group"], row["layer"]): row["value"] for row in rows if row["role"] == "teacher"}
    assert teacher == {
        (group, layer): value for group, values in dynamics["speed"].items() for layer, value in enumerate(values)
    }
    for name, model in dynamics["against"]["models"].items():
        k = len(model["phases"].split("-"))
        own = {
            (row["group"], row["layer"]): row["value"] for row in rows if row["role"] == "surrogate" and row["k"] == k
        }
        assert own == {
            (group, layer): value for group, values in model["speed"].items() for layer, value in enumerate(values)
        }, name


def test_a_page_of_nothing_and_of_a_damaged_run_has_a_note(demo_run, tmp_path):
    run = shutil.copytree(demo_run / "phases", tmp_path / "phases")
    (run / "result.json").write_text('{"k": ')
    (subject,) = collect([run])
    page = render([subject])
    assert "What is missing" in page
    assert "result.json cannot be read" in page
    assert "nothing was found" in render([])
