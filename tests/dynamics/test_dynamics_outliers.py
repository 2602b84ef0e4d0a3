"""Dynamics with separate outliers: curves of each group are those of its tokens alone, and the rest is unchanged."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import raptor
from planted_outliers import PlantedOutliers, numbered, ordinary, patches_of, two_of_each
from raptor.core.deserialize import from_plain
from raptor.core.serialize import to_plain
from raptor.core.tokens import TokenLayout
from raptor.dynamics.compare import compare_dynamics
from raptor.dynamics.curves.registry import RegisteredMeasures
from raptor.dynamics.measures import StateBatch
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.result import DynamicsResult
from raptor.dynamics.survey import measure_dynamics
from raptor.dynamics.text import outliers, show_dynamics
from raptor.dynamics.unread import last_layers
from raptor.errors import OptionError
from raptor.inspection.outliers import find_outliers
from raptor.models.separated import OutlierOrder, SeparatedOutliers
from raptor.render.charts import draw
from raptor.render.tables import Table
from raptor.runtime.rundir import Run
from vits import family, pixels

FEW = {"perturbation_images": 2, "lyapunov_images": 1, "mixing_pairs": 2, "coupling_images": 1}
SEPARATE = DynamicsOptions(outliers="separate", **FEW)
TOGETHER = DynamicsOptions(**FEW)


@pytest.fixture(scope="module")
def measured():
    flow = PlantedOutliers(two_of_each())
    return {
        options.outliers: measure_dynamics(flow, numbered(), phases="3-3", options=options, progress=False)
        for options in (SEPARATE, TOGETHER)
    }


def test_curves_of_patches_are_those_of_the_ordinary_ones_alone(measured):
    flow = PlantedOutliers(two_of_each())
    states = raptor.rollout(flow, flow.embed(torch.cat(numbered()))).states
    alone = RegisteredMeasures()
    layers = list(patches_of(states, ordinary(two_of_each())).unbind(dim=1))
    for measure in alone:
        measure.update(StateBatch(layers, TokenLayout(0, 0, (1, 14))))
    curves = measured["separate"].curves
    for name, wanted in alone.compute(0).items():
        torch.testing.assert_close(
            torch.tensor(curves[name].mean["patch"]), torch.tensor(wanted.mean["patch"]), rtol=1e-4, atol=1e-5
        )
    assert curves["norm"].mean["outlier"][3] == pytest.approx(500, rel=0.02)
    assert max(curves["norm"].mean["patch"]) < 10
    assert measured["together"].curves["norm"].mean["patch"][3] > 50


def test_other_groups_and_what_has_no_groups_do_not_change(measured):
    separate, together = (to_plain(measured[name]) for name in ("separate", "together"))
    assert "outliers" not in together
    assert separate["outliers"] == {
        "layer": 3, "count": 2, "share_of_images": 1.0, "share_of_group": 1.0, "factor": 5.0, "n": 12
    }  # fmt: skip
    for name in ("norm", "gamma", "speed", "stable_rank", "dmd", "paths", "coupling"):
        assert separate[name]["cls"] == together[name]["cls"]
    for name in ("lyapunov", "mixing", "phases"):
        assert separate[name] == together[name]
    assert list(separate["last_layer"]) == ["cls", "register", "outlier", "patch"]
    assert from_plain(DynamicsResult, separate).outliers == measured["separate"].outliers


def test_no_claim_is_about_outliers(measured):
    claims = measured["separate"].claims
    assert len(claims) == len(measured["together"].claims)
    assert not any("outlier" in claim.evidence for claim in claims)
    assert any("patch" in claim.evidence for claim in claims)


def test_the_group_is_shown_and_drawn(measured, tmp_path):
    result = measured["separate"]
    with Run("dynamics", {}, tmp_path / "run", seed=0) as run:
        record = run.record(
            result, images=12, layers=6, about={"model": "toy"}, figures=draw(run, "dynamics", result, "toy")
        )
    parts = list(show_dynamics(record))
    assert parts[0] == str(result.outliers)
    assert [part.title.split(",")[0] for part in parts if isinstance(part, Table)][:4] == [
        "cls", "register", "outlier", "patch",
    ]  # fmt: skip
    assert outliers(record) == [str(result.outliers)]
    assert "#CC79A7" in (tmp_path / "run/figures/speed.vl.json").read_text()


def test_all_models_of_a_comparison_have_the_outliers_of_the_first():
    flows = {"one": PlantedOutliers(two_of_each()), "other": PlantedOutliers([], seed=1)}
    found = compare_dynamics(flows, numbered(), "3-3", SEPARATE, progress=False)
    other = found.against.models["other"]
    assert other.outliers == found.outliers
    assert max(other.curves["norm"].mean["outlier"]) < 10
    assert "outlier" in found.against.distances["one | other"]["norm"]


@pytest.mark.parametrize("name", ["vit", "siglip", "dinov3", "beit-own"])
def test_models_with_positions_are_measured(name, monkeypatch):
    """Perturbations, Jacobians and the repeated last step of models with rotary or relative positions, and no cls."""
    monkeypatch.setattr("raptor.inspection.separate.find_outliers", partial(find_outliers, factor=1.05))
    model, images = raptor.load_model(family(name).build()), [pixels(32, 32, batch=4, seed=seed) for seed in (0, 1)]
    options = DynamicsOptions(beyond=True, outliers="separate", **FEW)
    found = measure_dynamics(model, images, phases=None, options=options, progress=False)
    assert found.outliers is not None
    for groups in (found.curves["speed"].mean, found.dmd, found.coupling, found.correction.by_group, found.beyond.rate):
        assert {"outlier", "patch"} <= set(groups)


def test_coupling_and_exponents_can_be_left_out(monkeypatch):
    monkeypatch.setattr("raptor.inspection.separate.find_outliers", partial(find_outliers, factor=1.05))
    model, images = raptor.load_model(family("vit").build()), [pixels(32, 32, batch=4, seed=seed) for seed in (0, 1)]
    options = DynamicsOptions(outliers="separate", **{**FEW, "coupling_images": 0, "lyapunov_images": 0})
    found = measure_dynamics(model, images, phases=None, options=options, progress=False)
    assert found.coupling == {}
    assert found.lyapunov is None


def test_outliers_are_read_by_the_head_as_patches_are():
    model = raptor.load_model("scenes")
    found = last_layers(SeparatedOutliers(model, OutlierOrder(model, 3, 2)))
    assert found.pop("outlier") == found["patch"]
    assert found == last_layers(model)


def test_an_unknown_value_is_refused():
    with pytest.raises(OptionError, match="'apart'"):
        DynamicsOptions(outliers="apart")
