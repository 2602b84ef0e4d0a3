"""Results are read back from run directories as typed records."""

from __future__ import annotations

import json

import pytest

import raptor
from raptor.errors import DataError
from raptor.inspection.inspect import InspectResult
from raptor.runtime.records import read_result
from raptor.runtime.rundir import Run


@pytest.fixture
def folder(tmp_path):
    with Run("inspect", {"model": "scenes"}, tmp_path / "run", 3) as run:
        run.record(raptor.inspect(raptor.load_model("scenes")), images=0, layers=12)
    return tmp_path / "run"


def test_a_result_is_read_back(folder):
    record = read_result(folder)
    assert isinstance(record.result, InspectResult)
    assert (record.verb, record.seed, record.layers) == ("inspect", 3, 12)
    assert record.to_json() + "\n" == (folder / "result.json").read_text()
    assert read_result(str(folder), InspectResult) == record


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"verb": "nothing"}, "nothing"),
        ({"schema": 99}, "schema 1"),
        ({"layers": "many"}, "many"),
    ],
)
def test_a_wrong_result_is_an_error(folder, change, named):
    content = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(content | change))
    with pytest.raises(DataError, match=named):
        read_result(folder)


def test_what_is_no_result_is_an_error(folder):
    with pytest.raises(DataError, match="Phases"):
        read_result(folder, raptor.Phases)
    (folder / "result.json").write_text("{")
    with pytest.raises(DataError, match=r"result\.json"):
        read_result(folder)
    (folder / "result.json").unlink()
    with pytest.raises(DataError, match="not a finished run"):
        read_result(folder)
