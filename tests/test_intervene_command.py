"""`raptor intervene`: keys, matched experiments, mistakes."""

from __future__ import annotations

import json


def test_keys(call, tmp_path):
    options = ("--phases", "5-5-2", "--images", 12, "--batch-size", 12, "--most", 1, "--device", "cpu")
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
    code, out, err = call("intervene", "scenes", *options)
    assert code == 0, err
    assert "interchange" in out


def test_one_phase_has_no_orders_across_and_is_drawn_all_the_same(call, tmp_path):
    options = ("--phases", "12", "--images", 2, "--most", 1, "--device", "cpu", "--out", tmp_path, "--json")
    code, out, err = call("intervene", "scenes", *options)
    assert code == 0, err
    assert json.loads(out)["replace"]["1"]["inter"] is None
    assert (tmp_path / "figures" / "interventions.png").exists()


def test_mistakes_are_one_line(call):
    for arguments, said in (
        (("scenes", "--phases", "5-5"), "12"),
        (("scenes", "--phases", "many"), "many"),
        (("timm:vit_tiny_patch16_224", "--phases", "6-6"), "name some with --data"),
    ):
        code, out, err = call("intervene", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
