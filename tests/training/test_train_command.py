"""`raptor train`: the contract of its result, and mistakes that are reported before training."""

from __future__ import annotations

import json

import datasets
import pytest
import torch

from pictures import picture
from raptor.models.checkpoints import load_vit

SMALL = ("--image-size", 8, "--patch-size", 8, "--steps", 2, "--batch-size", 4, "--depth", 2, "--width", 16,
         "--heads", 2, "--registers", 0, "--device", "cpu")  # fmt: skip


def table(path, names):
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    rows = {"image": [picture(10 * n) for n in range(len(names))], "label": list(names)}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(path)


@pytest.fixture
def tables(tmp_path, capfd):
    """Labels as text, whose numbers are given table by table."""
    for name, labels in (("train", "abcabc"), ("test", "acac")):
        table(tmp_path / f"{name}.parquet", labels)
    capfd.readouterr()
    return tmp_path


def test_mistakes_are_told_before_anything_is_trained(call, tables, flat):
    out = tables / "out"
    for arguments, said in (
        (("--data", tables), "have different classes"),
        (("--data", "scenes", "--eval-data", tables / "nowhere"), "nowhere"),
        (("--data", "scenes", "--eval-data", flat), "have different classes"),
        (("--data", "scenes", "--epochs", "nan", "--images", 8), "--epochs"),
        (("--data", "scenes", "--epochs", "inf", "--images", 8), "--epochs"),
        (("--data", "scenes", "--epochs", -1, "--images", 8), "epochs"),
        (("--data", "scenes", "--lr", 0), "learning rates must be above 0"),
        (("--data", "scenes", "--lr", "nan"), "'--lr'"),
        (("--data", "scenes", "--muon-lr", -1), "muon"),
    ):
        code, printed, err = call("train", *arguments, *SMALL, "--out", out)
        assert (code, printed) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1
        assert not (out / "checkpoint.pt").exists()


def test_held_out_images_may_lack_the_last_classes(call, tmp_path, capfd):
    """Labels that are numbers have names up to the largest: a split without it means the same by the others."""
    data = tmp_path / "data"
    data.mkdir()
    for name, labels in (("train", [0, 1, 2, 2]), ("test", [1, 0, 1])):
        rows = {"image": [picture(10 * n) for n in range(len(labels))], "label": labels}
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        datasets.Dataset.from_dict(rows, features=features).to_parquet(data / f"{name}.parquet")
    capfd.readouterr()
    code, out, err = call("train", "--data", data, *SMALL, "--out", tmp_path / "out", "--json")
    assert code == 0, err
    assert json.loads(out)["images"] == 3


def test_no_rate_of_muon_leaves_all_to_adamw(call, tmp_path):
    for name, rate in (("none", ()), ("zero", ("--muon-lr", 0))):
        assert call("train", "--data", "scenes", *SMALL, *rate, "--eval-images", 4, "--out", tmp_path / name)[0] == 0
    one, other = (load_vit(tmp_path / name / "model")[0].state_dict() for name in ("none", "zero"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_one_held_out_image_has_no_interval(call, tmp_path):
    code, out, err = call("train", "--data", "scenes", *SMALL, "--eval-images", 1, "--out", tmp_path)
    assert code == 0, err
    assert "95% interval nan to nan, n = 1" in out
    assert json.loads((tmp_path / "result.json").read_text())["top1_ci"] == [None, None]


def test_its_configuration_is_all_that_is_needed_to_repeat_it(call, tmp_path):
    options = ("--eval-images", 3, "--label-column", "label", "--allow-damaged")
    table(tmp_path / "a.parquet", "abababab")
    assert call("train", "--data", tmp_path / "a.parquet", *SMALL, *options, "--out", tmp_path / "out")[0] == 0
    kept = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (kept["image_size"], kept["eval_data"], kept["eval_images"]) == (8, None, 3)
    assert (kept["image_column"], kept["label_column"], kept["allow_damaged"]) == (None, "label", True)
    # Other labels are another training.
    code, _, err = call("train", "--data", tmp_path / "a.parquet", *SMALL, "--out", tmp_path / "out", "--resume")
    assert code == 2
    assert "label_column" in err or "eval_images" in err or "allow_damaged" in err
