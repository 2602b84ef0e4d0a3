"""`raptor intervene`: keys, matched experiments, mistakes."""

from __future__ import annotations

import json
from unittest import mock

import pytest

from probed import assert_read_back
from raptor.interventions.intervene import InterveneResult
from raptor.interventions.orders import EXPERIMENTS, run_experiment

FEW = ("--most", 1, "--matrix-images", 1, "--device", "cpu")


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """Return the directory of a small ViT of six layers."""
    from commands import call

    folder = tmp_path_factory.mktemp("vit")
    small = ("--steps", 1, "--batch-size", 4, "--depth", 6, "--width", 16, "--heads", 2, "--eval-images", 4)
    code, _, err = call(folder, "train", "--data", "scenes", *small, "--device", "cpu", "--out", "model")
    assert code == 0, err
    return folder / "model"


def test_keys(call, vit, tmp_path):
    options = ("--data", "scenes", "--phases", "3-3", "--images", 12, "--batch-size", 12, *FEW)
    code, out, err = call("intervene", vit, *options, "--out", tmp_path, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["verb"], result["measure"], result["images"], result["layers"]) == ("intervene", "accuracy", 12, 6)
    for name in ("replace", "interchange", "skip", "repeat"):
        assert set(result[name]) == {"1", "2", "3"}
        for contrast in result[name].values():
            for kind in ("intra", "inter"):
                if contrast[kind] is not None:
                    low, high = contrast[kind]["ci"]
                    assert low <= contrast[kind]["mean"] <= high
    assert result["replace"]["1"]["intra"]["orders"] == result["replace"]["1"]["inter"]["orders"] == 1
    assert result["skip"]["1"]["inter"] is None
    assert (tmp_path / "figures" / "interventions.csv").read_text().startswith("experiment,layers,where,value,low,high")
    record = assert_read_back(InterveneResult, result)
    assert list(record.result.experiments) == ["replace", "interchange", "skip", "repeat"]
    assert set(record.about) == {"model", "data"}
    code, out, err = call("intervene", vit, *options)
    assert code == 0, err
    assert "interchange" in out


def test_one_phase_has_no_orders_across_and_is_drawn_all_the_same(call, vit, tmp_path):
    options = ("--data", "scenes", "--phases", "6", "--images", 2, *FEW, "--out", tmp_path, "--json")
    code, out, err = call("intervene", vit, *options)
    assert code == 0, err
    assert json.loads(out)["replace"]["1"]["inter"] is None
    assert (tmp_path / "figures" / "interventions.png").exists()


def test_mistakes_are_one_line(call):
    for arguments, said in (
        (("scenes", "--phases", "5-5"), "12"),
        (("scenes", "--phases", "many"), "many"),
        (("timm:vit_tiny_patch16_224", "--phases", "6-6"), "add --data"),
    ):
        code, out, err = call("intervene", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_a_new_experiment_is_in_json_terminal_and_figure(call, vit, tmp_path):
    def reverse(depth, run):
        """Run some consecutive layers in reverse order."""
        turned = dict(zip(run, reversed(run), strict=True))
        return [turned.get(layer, layer) for layer in range(depth)]

    with mock.patch.dict(EXPERIMENTS):
        run_experiment(reverse)
        options = ("--data", "scenes", "--phases", "3-3", "--images", 2, *FEW, "--out", tmp_path)
        code, out, err = call("intervene", vit, *options)
    assert code == 0, err
    assert "reverse" in out
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result["reverse"]) == {"1", "2", "3"}
    assert result["reverse"]["1"]["intra"]["cosine"] > 0.999
    assert "reverse" in (tmp_path / "figures" / "interventions.csv").read_text()
    assert "reverse" in assert_read_back(InterveneResult, result).result.experiments
