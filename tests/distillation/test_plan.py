"""`raptor plan`: what a run would cost, and what a budget would reach."""

from __future__ import annotations

import json

import pytest

from small_vit import QUICK


def test_a_plan_counts_what_is_known(call, vit):
    code, out, err = call("plan", vit, "--dataset-size", 1000, "--k", 2, "--epochs", 3, "--batch-size", 2, "--json")
    assert code == 0, err
    result = json.loads(out)
    # States of the layers 0..4: 66 tokens of width 16 in single precision.
    assert result["disk_if_stored"] == 1000 * 5 * 66 * 16 * 4
    assert result["phases"] == "2-2"
    assert result["seconds"] > 0
    assert result["memory"] > result["disk"] > 0
    code, out, _ = call("plan", vit, "--dataset-size", 1000, "--k", 2, "--epochs", 6, "--batch-size", 2, "--json")
    assert json.loads(out)["flops"] == 2 * result["flops"]
    code, _, err = call("plan", vit, "--dataset-size", 1000, "--k", 9)
    assert code == 2
    assert "cannot be cut into 9 phases" in err


def planted_runs(distilled, root):
    """Copy a result to runs on a planted law: recovered = 1 / (1 + 8000 / images)."""
    for images in (1000, 4000, 16_000):
        reached = 1 / (1 + 8000 / images)
        result = json.loads((distilled / "result.json").read_text())
        result |= {"train_seconds": 10.0, "images_per_second": images / 10}
        result["fidelity"] |= {"recovered": reached, "recovered_ci": [reached, reached]}
        result["fidelity"]["cosine"]["all"][-1] = 0.5 * reached
        (root / str(images)).mkdir(parents=True)
        (root / str(images) / "result.json").write_text(json.dumps(result))
        yield from ("--run", root / str(images))


def test_a_plan_says_what_a_budget_would_reach(call, vit, tmp_path):
    code, _, err = call("distill", vit, "--data", "scenes", "--k", 2, *QUICK, "--out", tmp_path / "distilled")
    assert code == 0, err
    runs = list(planted_runs(tmp_path / "distilled", tmp_path / "law"))
    base = ("plan", vit, "--dataset-size", 8000, "--epochs", 4, "--k", 2, "--batch-size", 2)
    code, out, err = call(*base, *runs, "--target", 0.5, "--tflops", 2, "--json")
    assert code == 0, err
    result = json.loads(out)
    # 2 stages x 4 epochs x 8,000 images, on the planted law: 64,000 / 72,000, and half is reached at 8,000 images.
    assert result["expected"]["recovered"] == pytest.approx(8 / 9, abs=0.02)
    assert result["expected_ci"]["recovered"][0] < 8 / 9 < result["expected_ci"]["recovered"][1]
    assert result["target_images"] == pytest.approx(8000, rel=0.05)
    assert result["seconds"] == pytest.approx(result["flops"] / 2e12)
    assert result["target_seconds"] == pytest.approx(result["seconds"] * result["target_images"] / 64_000)
    code, out, _ = call(*base, *runs, "--target", 0.5)
    assert "accuracy recovered" in out
    code, _, err = call(*base, "--target", 0.5)
    assert code == 2
    assert "--run" in err
    code, _, err = call(*base, *runs[:4])
    assert code == 2
    assert "at least 3" in err
    code, _, err = call(*base, *runs, "--target", 1.5)
    assert code == 2
    assert "between 0 and 1" in err
