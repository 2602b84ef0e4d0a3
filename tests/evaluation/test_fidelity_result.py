"""The result of fidelity: written and read back, shown, and extended by a measure in one place."""

from __future__ import annotations

import json

import pytest
import torch

from raptor.core.deserialize import from_plain
from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.data.load import load_images
from raptor.evaluation.evaluate import FidelityResult, fidelity
from raptor.evaluation.measures import MEASURES, measure
from raptor.evaluation.text import answer, cost, notebook, show_fidelity
from raptor.models.load import load_model
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.render.tables import Table
from raptor.runtime.rundir import Record, Run


@pytest.fixture
def surrogate():
    torch.manual_seed(0)
    teacher = load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))
    return build_surrogate(teacher, Phases((1, 3)))


@pytest.fixture
def images(surrogate):
    return load_images("scenes", surrogate.teacher, "test", 12, batch_size=8)


def recorded(result, out=None):
    with Run("fidelity", {}, out, seed=0) as run:
        return run.record(result, images=result.n, layers=4, about={"surrogate": "a", "data": "scenes"})


def test_it_is_read_back_from_json(surrogate, images, tmp_path):
    record = recorded(fidelity(surrogate, images, runtime_batch_size=2), tmp_path / "run")
    text = (tmp_path / "run/result.json").read_text()
    again = from_plain(Record[FidelityResult], json.loads(text))
    assert to_plain(again) == json.loads(text)
    assert again.result.stitched.keys() == {1, 4}
    assert again.result.phases == Phases((1, 3))
    assert again.result.surrogate_top1.ci == record.result.surrogate_top1.ci
    assert again.result.runtime_rounds == 5


def test_it_is_shown_in_words_and_tables(surrogate, images):
    result = fidelity(surrogate, images)
    record = recorded(result)
    table, *rest = show_fidelity(record)
    lines = [part for part in rest if isinstance(part, str)]
    assert len(table.rows) == 4
    assert any("recovered" in line for line in lines)
    assert not any("runtime" in line for line in lines)
    assert "R2 of layer" in result._repr_html_()
    assert isinstance(notebook(result)[1], Table)
    assert 'data-key="r2/all/-1"' in answer(record)[0]


def test_without_labels_there_is_a_note(surrogate, images):
    result = fidelity(surrogate, [batch.pixels for batch in images])
    assert result.recovered is None
    assert "labels" in result.notes[0]
    plain = to_plain(result)
    assert (plain["recovered"], plain["recovered_ci"], plain["stitched"]) == (None, None, None)
    assert "recovered" not in "".join(map(str, show_fidelity(recorded(result))))


def test_a_measure_is_added_in_one_place(surrogate, images):
    try:

        @measure("worst", "worst feature", page=True)
        def worst(states):
            """Return the largest error of a feature."""
            return (states.teacher - states.surrogate).abs().amax(dim=-1)

        record = recorded(fidelity(surrogate, images))
        table = next(show_fidelity(record))
        page = cost(record)
    finally:
        del MEASURES["worst"]
    plain = json.loads(record.to_json())
    value = plain["worst"]["all"][-1]
    assert plain["worst_ci"]["all"][0][-1] <= value <= plain["worst_ci"]["all"][1][-1]
    assert f"{value:.3f}" in map(str, table.rows[-1])
    assert "worst feature" in table.columns
    assert "worst feature, last layer" in page.columns
    assert f"{value:.3f}" in map(str, page.rows[0])
