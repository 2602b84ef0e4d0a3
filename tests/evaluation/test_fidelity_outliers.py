"""Fidelity with separate outliers: measures of each group against those of the same tokens alone; the rest is equal."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import raptor
from planted_outliers import PlantedOutliers, numbered, ordinary, patches_of, two_of_each
from raptor.core.deserialize import from_plain
from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.data.load import load_images
from raptor.errors import OptionError
from raptor.evaluation.evaluate import FidelityResult, fidelity
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.evaluation.linear import linear_baselines
from raptor.evaluation.options import FidelityOptions
from raptor.evaluation.text import outliers, show_fidelity
from raptor.inspection.outliers import find_outliers
from raptor.inspection.separate import separation
from raptor.models.load import load_model
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.render.tables import Table
from raptor.runtime.rundir import Run

PHASES = Phases((3, 3))


@pytest.fixture
def flows():
    return PlantedOutliers(two_of_each()), PlantedOutliers(two_of_each(), seed=1)


def direct(y, s):
    """Return measures of two arrays (images, layers, tokens, width) at the layers 1..L, by definition."""
    y, s = y.double(), s.double()
    error = (y - s).square().sum(dim=(0, 2, 3))[1:]
    variance = (y - y.mean(dim=0)).square().sum(dim=(0, 2, 3))[1:]
    change = (y - y[:, :1]).square().sum(dim=(0, 2, 3))[1:]
    cosine = torch.cosine_similarity(y, s, dim=-1).mean(dim=(0, 2))[1:]
    epsilon = (y - s).norm(dim=-1).mean(dim=(0, 2))[1:]
    return {"r2": 1 - error / variance, "skill": 1 - error / change, "cosine": cosine, "epsilon": epsilon}


@pytest.mark.parametrize("batch", [12, 5])
def test_measures_of_each_group_are_those_of_its_tokens_alone(flows, batch):
    separated = separation("separate", flows[0], numbered(batch))
    found = trajectory_fidelity(*map(separated.of, flows), numbered(batch), PHASES)
    states = [raptor.rollout(flow, flow.embed(torch.cat(numbered()))).states for flow in flows]
    rows = ordinary(two_of_each())
    for name, wanted in direct(*(patches_of(one, rows) for one in states)).items():
        torch.testing.assert_close(
            torch.tensor(found[name].mean["patch"]), wanted.float(), check_dtype=False, rtol=1e-4, atol=1e-6
        )
    norms = states[0][:, 3, flows[0].layout.where("patch")].norm(dim=-1)
    outlying = norms.argsort(dim=1, descending=True)[:, :2]
    for name, wanted in direct(*(patches_of(one, outlying) for one in states)).items():
        torch.testing.assert_close(
            torch.tensor(found[name].mean["outlier"]), wanted.float(), check_dtype=False, rtol=1e-4, atol=1e-6
        )
    together = trajectory_fidelity(*flows, numbered(batch), PHASES)
    for name, values in together.items():
        for group in ("cls", "register"):
            assert values.mean[group] == found[name].mean[group]
    assert abs(together["r2"].mean["patch"][-1] - found["r2"].mean["patch"][-1]) > 0.1


def test_linear_baselines_have_the_group_too(flows):
    separated = separation("separate", flows[0], numbered())
    found = linear_baselines(*map(separated.of, flows), raptor.core.batches.BatchList(numbered()), PHASES)
    assert list(found.identity.r2.mean) == ["cls", "register", "outlier", "patch", "all"]


@pytest.fixture
def surrogate():
    torch.manual_seed(0)
    teacher = load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))
    return build_surrogate(teacher, Phases((1, 3)))


@pytest.fixture
def images(surrogate):
    return load_images("scenes", surrogate.teacher, "test", 12, batch_size=8)


def test_accuracy_and_cost_do_not_change(surrogate, images, monkeypatch):
    together, default = (
        fidelity(surrogate, images, options=FidelityOptions(outliers="together")),
        to_plain(fidelity(surrogate, images)),
    )
    assert to_plain(together) == default
    assert "outliers" not in default
    # A model without massive activations, in which patches somewhat above the median count as such.
    monkeypatch.setattr("raptor.inspection.separate.find_outliers", partial(find_outliers, factor=1.05))
    separate = fidelity(surrogate, images, options=FidelityOptions(outliers="separate"))
    plain = to_plain(separate)
    assert plain["outliers"].keys() == {"layer", "count", "share_of_images", "share_of_group", "factor", "n"}
    for name in ("teacher_top1", "surrogate_top1", "recovered", "stitched", "flops", "parameters", "levin_bits"):
        assert plain[name] == default[name]
    for group in ("cls", "register"):
        assert plain["r2"][group] == default["r2"][group]
    assert list(plain["r2"]) == ["cls", "register", "outlier", "patch", "all"]
    assert plain["linear"]["raptor"]["top1"] == default["linear"]["raptor"]["top1"]
    assert from_plain(FidelityResult, plain).outliers == separate.outliers
    with Run("fidelity", {}, None, seed=0) as run:
        record = run.record(separate, images=12, layers=4, about={"surrogate": "a", "data": "scenes"})
    parts = list(show_fidelity(record))
    assert str(separate.outliers) in parts
    titles = [part.title.split()[0] for part in parts if isinstance(part, Table)]
    assert titles[:3] == ["all", "patch", "outlier"]
    assert outliers(record) == [str(separate.outliers)]


def test_a_model_without_outliers_is_measured_as_together(surrogate, images, caplog):
    options = FidelityOptions(linear_images=0)
    separate = FidelityOptions(linear_images=0, outliers="separate")
    assert to_plain(fidelity(surrogate, images, options=separate)) == to_plain(
        fidelity(surrogate, images, options=options)
    )
    assert "no massive activations" in caplog.text


def test_an_unknown_value_is_refused():
    with pytest.raises(OptionError, match="'apart'"):
        FidelityOptions(outliers="apart")
