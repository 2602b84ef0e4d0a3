"""A study that is registered appears in the terminal, in result.json and on the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from unittest import mock

import altair as alt
import pytest

import raptor
from raptor.data.options import LoadOptions
from raptor.errors import OutputError
from raptor.render import registry as rendering
from raptor.render.charts import Figure
from raptor.runtime.options import RunOptions
from raptor.studies import registry
from raptor.studies.jobs import Job
from raptor.studies.registry import Claim, Study, Summary, study

OPTIONS = ("--size", "smoke", "--device", "cpu")


@dataclass(frozen=True)
class ToyRow:
    """A number."""

    name: str
    number: float


@pytest.fixture
def toy():
    """Register a study whose only job returns a number."""
    registry.load_studies()  # first: what is imported inside would be taken away again
    with mock.patch.dict(registry.STUDIES), mock.patch.dict(rendering.FIGURES):

        @study("toy", "Each dot is a number.", "Figure 99")
        class Toy(Study[ToyRow]):
            def jobs(self, setting):
                return [Job("toy/number", setting.cache_key, ToyRow, lambda results, out: ToyRow("seven", 7.25))]

            def summarise(self, setting, done):
                return Summary([done.results.of("toy/number", ToyRow)], Claim("numbers are small", False, "it is 7"))

            def draw(self, rows):
                values = [{"number": row.number} for row in rows]
                return Figure(alt.Chart(alt.Data(values=values)).mark_point().encode(x="number:Q"), values)

        yield


@pytest.mark.usefixtures("toy")
def test_a_registered_study_is_everywhere(call, tmp_path):
    code, out, err = call("study", "toy", *OPTIONS, "--out", tmp_path)
    assert code == 0, err
    assert "7.2500" in out
    assert "does not hold" in out
    result = json.loads((tmp_path / "toy" / "result.json").read_text())
    assert result["summary"] == [{"name": "seven", "number": 7.25}]
    assert result["claim"] == {"text": "numbers are small", "held": False, "evidence": "it is 7"}
    assert (tmp_path / "toy" / "figures" / "toy.csv").read_text() == "number\n7.25\n"
    code, out, err = call("report", tmp_path / "toy", "--out", tmp_path / "page.html", "--json")
    assert code == 0, err
    assert json.loads(out)["missing"] == []
    page = (tmp_path / "page.html").read_text()
    for shown in ("<h2>Studies</h2>", "numbers are small", "Each dot is a number.", "Figure 99", "do not hold here"):
        assert shown in page


@pytest.mark.usefixtures("toy")
def test_a_study_from_python(tmp_path):
    options, run_options = raptor.StudyOptions(size="smoke"), RunOptions(device="cpu", quiet=True)
    result = raptor.study("toy", options, tmp_path, LoadOptions(), run_options)
    assert result.summary == [ToyRow("seven", 7.25)]
    assert result.claim.held is False
    assert "7.2500" in result._repr_html_()
    with pytest.raises(OutputError, match="--resume"):
        raptor.study("toy", options, tmp_path, run_options=run_options)


@pytest.mark.usefixtures("toy")
def test_a_result_of_another_shape_is_named_and_its_figures_are_shown(call, tmp_path):
    assert call("study", "toy", *OPTIONS, "--out", tmp_path, "--quiet")[0] == 0
    file = tmp_path / "toy" / "result.json"
    result = json.loads(file.read_text())
    file.write_text(json.dumps({**result, "claim": {**result["claim"], "held": "maybe"}}))
    code, out, err = call("report", tmp_path / "toy", "--out", tmp_path / "page.html", "--json")
    assert code == 0, err
    (note,) = json.loads(out)["missing"]
    assert "claim/held" in note
    assert "Each dot is a number." in (tmp_path / "page.html").read_text()
