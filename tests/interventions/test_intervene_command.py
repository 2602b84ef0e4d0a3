"""`raptor intervene`: keys, matched experiments, mistakes."""

from __future__ import annotations

import json
from unittest import mock

from probed import assert_read_back
from raptor.interventions.intervene import InterveneResult
from raptor.interventions.orders import EXPERIMENTS, run_experiment

FEW = ("--most", 1, "--matrix-images", 1)


def test_keys(call, tmp_path):
    options = (
        "--phases",
        "5-5-2",
        "--images",
        12,
        "--batch-size",
        12,
        "--most",
        1,
        "--matrix-images",
        1,
        "--device",
        "cpu",
    )
    code, out, err = call("intervene", "scenes", *options, "--out", tmp_path, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["verb"], result["measure"], result["images"], result["layers"]) == ("intervene", "accuracy", 12, 12)
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
    code, out, err = call("intervene", "scenes", *options)
    assert code == 0, err
    assert "interchange" in out


def test_one_phase_has_no_orders_across_and_is_drawn_all_the_same(call, tmp_path):
    options = (
        "--phases",
        "12",
        "--images",
        2,
        "--most",
        1,
        "--matrix-images",
        1,
        "--device",
        "cpu",
        "--out",
        tmp_path,
        "--json",
    )
    code, out, err = call("intervene", "scenes", *options)
    assert code == 0, err
    assert json.loads(out)["replace"]["1"]["inter"] is None
    assert (tmp_path / "figures" / "interventions.png").exists()


def test_mistakes_are_one_line(call):
    for arguments, said in (
        (("scenes", "--phases", "5-5"), "12"),
        (("scenes", "--phases", "many"), "many"),
        (("timm:vit_tiny_patch16_224", "--phases", "6-6"), "use --data"),
    ):
        code, out, err = call("intervene", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_a_new_experiment_is_in_json_terminal_and_figure(call, tmp_path):
    def reverse(depth, run):
        """Run some consecutive layers in reverse order."""
        turned = dict(zip(run, reversed(run), strict=True))
        return [turned.get(layer, layer) for layer in range(depth)]

    with mock.patch.dict(EXPERIMENTS):
        run_experiment(reverse)
        options = (
            "--phases",
            "5-5-2",
            "--images",
            2,
            "--most",
            1,
            "--matrix-images",
            1,
            "--device",
            "cpu",
            "--out",
            tmp_path,
        )
        code, out, err = call("intervene", "scenes", *options)
    assert code == 0, err
    assert "reverse" in out
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result["reverse"]) == {"1", "2", "3"}
    assert result["reverse"]["1"]["intra"]["cosine"] > 0.999
    assert "reverse" in (tmp_path / "figures" / "interventions.csv").read_text()
    assert "reverse" in assert_read_back(InterveneResult, result).result.experiments
