"""Table 1: every row on every task, shares with paired intervals, what is missing distilled first."""

from __future__ import annotations

import json
import math

import pytest
import torch

from probed import assert_read_back
from raptor.core.estimate import Estimate
from raptor.core.serialize import to_plain
from raptor.errors import OptionError
from raptor.probes.options import Table1Options
from raptor.probes.published import TABLE1
from raptor.probes.results import HeadMetrics
from raptor.probes.table1 import Table1Result, share, table1
from raptor.probes.task import Metric
from raptor.runtime.options import RunOptions

QUICK = ("--images", 40, "--eval-images", 40, "--epochs", 0.5, "--seeds", 1, "--lrs", "1e-2", "--device", "cpu")


@pytest.mark.long
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
    assert result["published"] == to_plain(TABLE1)
    assert_read_back(Table1Result, result)
    assert result["notes"] == []
    code, _, err = call(*[3 if part == 2 else part for part in command], "--out", out)
    assert code == 2
    assert "was started with steps = 2, not 3" in err


def head(values, draws):
    return HeadMetrics({name: Estimate(value, value, value) for name, value in values.items()}, {}, draws)


def test_the_same_share_of_every_resample_has_no_spread():
    """Shares are of paired resamples: a surrogate that is half as good on every one has an interval of one point."""
    draws = torch.rand(50) + 0.5
    whole = head({"top1": 0.8, "rmse": 0.5}, {"top1": draws, "rmse": draws})
    half = head({"top1": 0.4, "rmse": 1.0}, {"top1": draws / 2, "rmse": 2 * draws})
    for metric in (Metric("top1"), Metric("rmse", higher_is_better=False)):
        found = share(half, whole, metric)
        assert found.value == pytest.approx(0.5)
        assert found.ci == pytest.approx([0.5, 0.5])


@pytest.mark.long
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
    nothing = head({"top1": 0.0}, {"top1": torch.zeros(9)})
    assert math.isnan(share(nothing, nothing, Metric("top1")).value)


@pytest.mark.long
def test_from_python_with_bundled_surrogates():
    options = Table1Options(eval_images=20, lrs=[1e-2], epochs=0.5, seeds=[0])
    result = table1("scenes", options=options, run_options=RunOptions(images=20, device="cpu", quiet=True))
    assert [(row.kind, row.k) for row in result.rows] == [("teacher", None), ("surrogate", 2), ("surrogate", 3)]
    assert result.rows[1].recovered["top1"].value == pytest.approx(
        result.rows[1].scores["top1"].value / result.rows[0].scores["top1"].value
    )
    assert "share of the teacher" in result._repr_html_()


def test_from_python_a_surrogate_that_is_not_there_is_named():
    with pytest.raises(OptionError, match="k = 7"):
        table1("scenes", options=Table1Options(k=[7], eval_images=8), run_options=RunOptions(images=8, quiet=True))


def test_mistakes_are_one_line(call, tmp_path):
    for arguments, said in (
        (("scenes", "--k", "2.5"), "--k takes integers"),
        (("scenes", "--k", "4"), "give --out DIR or --surrogates DIR"),
        (("scenes", "--surrogates", "scenes"), "'scenes' is not a surrogate"),
        (("timm:vit_tiny_patch16_224",), "add --data"),
    ):
        code, out, err = call("table1", *arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1
