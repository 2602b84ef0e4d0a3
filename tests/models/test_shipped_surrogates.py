"""The surrogates that ship: small, of the frozen ViT, and worth what their cards say."""

from __future__ import annotations

import json

import pytest

import raptor
from raptor.data.load import load_images
from raptor.evaluation.evaluate import fidelity
from raptor.models.load import SHIPPED_SURROGATES
from raptor.models.pretrained import load_surrogate, with_teacher

NAMES = sorted(SHIPPED_SURROGATES)
RECOVERED = {"scenes:k2": 0.96, "scenes:k3": 0.98}  # at least: the shares that the paper reports


@pytest.fixture(scope="module")
def teacher():
    return raptor.load_model("scenes")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_and_has_its_history(name):
    folder = SHIPPED_SURROGATES[name]
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2_000_000
    config = json.loads((folder / "config.json").read_text())
    assert f"k{len(config['phases'].split('-'))}" in name
    provenance = config["provenance"]
    assert provenance["training"]["seconds"] <= 40 * 60
    assert provenance["fidelity"]["images"] == 5000
    assert provenance["fidelity"]["recovered"] >= RECOVERED[name]
    assert "## Fidelity and cost" in (folder / "README.md").read_text()


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])])
def test_it_is_worth_what_its_card_says(name, teacher):
    surrogate = with_teacher(load_surrogate(SHIPPED_SURROGATES[name]), teacher)
    measured = fidelity(surrogate, load_images("scenes", teacher, "test", 250, batch_size=50))
    told = surrogate.record["fidelity"]
    assert measured.by_layer["r2"].mean["all"][-1] == pytest.approx(told["r2"]["all"][-1], abs=0.02)
    low, high = measured.recovered.ci
    assert low - 0.01 <= told["recovered"] <= high + 0.01


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_model_by_its_name(name, teacher):
    assert raptor.load_model(name).depth == teacher.depth == 12
