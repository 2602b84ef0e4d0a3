"""Table 1: every row on every task, shares with paired intervals, what is missing distilled first."""

from __future__ import annotations

import json
import math

import pytest
import torch

from raptor.commands.table1 import _share
from raptor.probes.probe import Column
from raptor.published import TABLE1

QUICK = ("--images", 40, "--eval-images", 40, "--epochs", 0.5, "--seeds", 1, "--lrs", "1e-2", "--device", "cpu")


def test_rows_of_a_shipped_surrogate_a_distilled_control_and_a_baseline(call, tmp_path):
    out = tmp_path / "table"
    command = ("table1", "scenes", "--k", 3, "--untied", 3, "--steps", 2, "--batch-size", 4, *QUICK)
    code, text, err = call(*command, "--baseline", "scenes:k3", "--out", out, "--json")
    assert code == 0, err
    result = json.loads(text)
    assert result["verb"] == "table1"
    rows = {row["kind"]: row for row in result["rows"]}
    assert [row["kind"] for row in result["rows"]] == ["teacher", "surrogate", "untied", "baseline"]
    assert rows["teacher"]["recovered"]["top1"] == {"value": 1.0, "ci": [1.0, 1.0]}
    assert set(rows["surrogate"]["tasks"]) == {"classify", "segment", "depth"}
    assert (rows["surrogate"]["k"], rows["surrogate"]["model"]) == (3, "scenes:k3")
    share = rows["surrogate"]["rmse"] / rows["teacher"]["rmse"]
    assert rows["surrogate"]["recovered"]["rmse"]["value"] == pytest.approx(1 / share)
    share = rows["surrogate"]["miou"] / rows["teacher"]["miou"]
    assert rows["surrogate"]["recovered"]["miou"]["value"] == pytest.approx(share)
    # The same model twice is the same row: nothing depends on what was probed before.
    for metric in ("top1", "miou", "rmse"):
        assert rows["baseline"][metric] == rows["surrogate"][metric]
        assert rows["baseline"]["recovered"][metric] == rows["surrogate"]["recovered"][metric]
    assert rows["surrogate"]["r2"] > 0.9
    assert rows["teacher"]["r2"] is None
    assert rows["untied"]["parameters"] == rows["surrogate"]["parameters"]
    assert (out / "untied-k3" / "model" / "model.safetensors").exists()
    assert (out / "figures" / "figure5.png").exists()
    assert json.loads((out / "rows.json").read_text()) == result["rows"]
    assert result["published"] == list(TABLE1)
    assert result["notes"] == []
    code, _, err = call(*[3 if part == 2 else part for part in command], "--out", out)
    assert code == 2
    assert "was started with steps = 2, not 3" in err


def test_the_same_share_of_every_resample_has_no_spread():
    """Shares are of paired resamples: a surrogate that is half as good on every one has an interval of one point."""
    draws = torch.rand(50) + 0.5
    whole = Column({"top1": 0.8, "rmse": 0.5}, {}, {}, {"top1": draws, "rmse": draws})
    half = Column({"top1": 0.4, "rmse": 1.0}, {}, {}, {"top1": draws / 2, "rmse": 2 * draws})
    for metric in ("top1", "rmse"):
        share = _share(half, whole, metric)
        assert share["value"] == pytest.approx(0.5)
        assert share["ci"] == pytest.approx([0.5, 0.5])


def test_a_model_against_itself_recovers_everything_in_every_resample(call, tmp_path):
    """Rows are measured on the same resamples: no spread is left where nothing differs."""
    options = ("--surrogates", "scenes:k3", "--baseline", "scenes", *QUICK)
    code, out, err = call("table1", "scenes", *options, "--json")
    assert code == 0, err
    (baseline,) = [row for row in json.loads(out)["rows"] if row["kind"] == "baseline"]
    for metric in ("top1", "miou", "rmse", "top1_own"):
        assert baseline["recovered"][metric]["value"] == pytest.approx(1.0)
        assert baseline["recovered"][metric]["ci"] == pytest.approx([1.0, 1.0])


def test_nothing_of_nothing_is_no_number():
    nothing = Column({"top1": 0.0}, {}, {}, {"top1": torch.zeros(9)})
    assert math.isnan(_share(nothing, nothing, "top1")["value"])


def test_mistakes_are_one_line(call, tmp_path):
    for arguments, said in (
        (("scenes", "--k", "2.5"), "--k takes whole numbers from 1 on"),
        (("scenes", "--k", "4"), "must be distilled first: give --out, or --surrogates DIR"),
        (("scenes", "--surrogates", "scenes"), "'scenes' is no surrogate"),
        (("timm:vit_tiny_patch16_224",), "name some with --data"),
    ):
        code, out, err = call("table1", *arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1
