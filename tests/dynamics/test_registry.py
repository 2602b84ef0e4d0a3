"""A measure that is registered appears in the result, in JSON, in the terminal, in comparisons and on the page."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import raptor
from raptor.core import toy
from raptor.core.deserialize import from_plain
from raptor.core.serialize import to_json, to_plain
from raptor.dynamics import figures  # noqa: F401 (registers them)
from raptor.dynamics.curves.group_means import GroupMeans
from raptor.dynamics.curves.registry import CURVES, measure
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.result import DynamicsResult
from raptor.dynamics.text import show_dynamics, verdict
from raptor.render.charts import draw
from raptor.render.registry import FIGURES
from raptor.render.tables import Table
from raptor.reporting.collect import collect
from raptor.reporting.page import render
from raptor.runtime.rundir import Record, Run
from vits import pixels

CAPTION = "Angle between the updates of consecutive steps."
FEW = DynamicsOptions(perturbation_images=2, lyapunov_images=1, coupling_images=1)


@pytest.fixture
def turning():
    """Register a measure of how sharply tokens turn, for one test."""

    @measure("turning", of="steps", label="angle between updates (radians)", caption=CAPTION)
    class Turning(GroupMeans):
        def update(self, batch):
            pairs = zip(batch.updates, batch.updates[1:], strict=False)
            cosines = torch.stack([torch.cosine_similarity(*pair, dim=-1) for pair in pairs], dim=1)
            self.add(batch, cosines.clamp(-1, 1).acos())

    yield "turning"
    del CURVES["turning"], FIGURES["dynamics", "turning"]


def compare():
    """Compare two rotations on the same images."""
    flows = {"slow": toy.Rotation([0.1, 0.3, 0.5, 0.7]), "fast": toy.Rotation([0.2, 0.6, 1.0, 1.4])}
    return raptor.compare_dynamics(flows, [pixels(32, 32, batch=8).double()], "2-2", FEW)


@pytest.fixture(scope="module")
def compared():
    return compare()


def test_a_registered_measure_appears_everywhere(turning, tmp_path):
    result = compare()
    # Two chords of a circle meet at half the sum of their arcs.
    assert result.curves["turning"].mean["cls"] == pytest.approx([0.2, 0.4, 0.6], abs=1e-6)
    with Run("dynamics", {"model": "slow"}, tmp_path / "run", 0) as run:
        drawn = draw(run, "dynamics", result, "slow")
        record = run.record(result, images=8, layers=4, about={"model": "slow"}, figures=drawn)
    plain = json.loads((tmp_path / "run" / "result.json").read_text())
    assert plain["turning"]["cls"] == result.curves["turning"].mean["cls"]
    assert len(plain["turning_ci"]["cls"]) == 2
    distance = plain["against"]["distances"]["slow | fast"]["turning"]["cls"]["mean"]
    assert distance == pytest.approx(0.4, abs=1e-6)
    tables = [part for part in show_dynamics(record) if isinstance(part, Table)]
    assert "turning" in tables[0].columns
    assert "figures/turning.png" in drawn
    page = render(collect([tmp_path / "run"]))
    assert CAPTION in page
    assert "run-turning" in page


def test_results_are_read_back_from_json(compared):
    result = compared
    about = {"model": "slow", "data": None}
    record = Record(1, "dynamics", "0", 0, 8, 4, 1.0, result, damaged=[], figures=[], about=about)
    plain = json.loads(to_json(record))
    again = from_plain(Record[DynamicsResult], plain)
    assert to_plain(again) == plain
    assert again.about == about
    assert again.result.curves.keys() == result.curves.keys()
    assert again.result.dmd["cls"].eigenvalues == result.dmd["cls"].eigenvalues
    assert to_plain(again.result.claims) == to_plain(result.claims)
    assert again.result.against.models["fast"].converged_layer.keys() == result.converged_layer.keys()
    shown = [part for part in show_dynamics(again) if isinstance(part, Table)]
    assert [str(row[1]) for row in shown[-2].rows] == [verdict(claim) for claim in result.claims]


def test_a_result_without_optional_parts_is_read_back(compared):
    result = replace(compared, image_ranks=None, basins=None, phases=None, lyapunov=None, against=None)
    plain = json.loads(to_json(result))
    assert "image_ranks_of" not in plain
    assert "beyond" not in plain
    assert (plain["against"], plain["phases"]) == (None, None)
    again = from_plain(DynamicsResult, plain)
    assert again.image_ranks is None
    assert to_plain(again) == plain


def test_old_keywords_still_work():
    flow, images = toy.Rotation([0.1] * 4), [pixels(32, 32, batch=4).double()]
    with pytest.warns(FutureWarning, match="perturbation_images"), pytest.warns(FutureWarning, match="seed"):
        old = raptor.measure_dynamics(flow, images, None, pushed=1, seed=3)
    assert (old.sensitivity.images, old.seed) == (1, 3)


def test_models_that_cannot_be_compared():
    flows = {"four": toy.Rotation([0.1] * 4), "five": toy.Rotation([0.1] * 5)}
    with pytest.raises(raptor.RaptorError, match="five"):
        raptor.compare_dynamics(flows, [pixels(32, 32, batch=4)])
    with pytest.raises(raptor.RaptorError, match="at least one"):
        raptor.compare_dynamics({}, [pixels(32, 32, batch=4)])
