"""`raptor dynamics`: the contract of its result on teacher and surrogate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from raptor.commands import dynamics
from raptor.dynamics import updates

GROUPS = {"cls": 1, "register": 4, "patch": 64}


@pytest.mark.parametrize("model", ["scenes", "scenes:k2"])
def test_keys(call, tmp_path, model, monkeypatch):
    monkeypatch.setattr(dynamics, "PUSHED", 2)
    monkeypatch.setattr(dynamics, "STRETCHED", 1)
    monkeypatch.setattr(updates, "RANK_DRAWS", 10)
    code, out, err = call(
        "dynamics",
        model,
        "--phases",
        "7-5",
        "--images",
        24,
        "--batch-size",
        12,
        "--device",
        "cpu",
        "--out",
        tmp_path,
        "--json",
    )
    assert code == 0, err
    result = json.loads(out)
    assert "n" not in result
    assert (result["verb"], result["images"], result["layers"]) == ("dynamics", 24, 12)
    for name, length in (("norm", 13), ("gamma", 13), ("speed", 12), ("speed_std", 12), ("stable_rank", 12),
                         ("entropy_rank", 12), ("participation_ratio", 12), ("coherence", 12)):  # fmt: skip
        for group, values in result[name].items():
            assert len(values) == length
            assert all(np.isfinite(values))
            lows, highs = result[f"{name}_ci"][group]
            assert len(lows) == len(highs) == length
        assert set(result[name]) == set(GROUPS) - ({"cls"} if name == "coherence" else set())
    assert result["gamma"]["cls"][12] == pytest.approx(1.0, abs=1e-5)
    for group, count in GROUPS.items():
        assert 0 < result["settled_layer"][group] <= 12
        dmd = result["dmd"][group]
        assert len(dmd["eigenvalues"]) == dmd["rank"] <= 10
        assert len(dmd["one_step_error"]) == 12
        assert result["basins"][group]["n"] <= 24
        if count > 1:
            assert result["coherence_floor"][group] == pytest.approx(count**-0.5)
    assert set(result["correction"]) == {"layers", "epsilons", "draws", *GROUPS}
    assert np.shape(result["sensitivity"]["cls->patch"]["over_square"]) == (12, 5)
    assert result["speed_at_boundaries"]["cls"]["smallest"] == pytest.approx(1 / 11)
    assert [len(phase) for phase in result["lyapunov"]["mean"]] == [16, 16]
    assert ("beyond" in result) == (model != "scenes")


def test_mistakes_are_one_line(call):
    for arguments, said in (
        (("scenes", "--phases", "5-5"), "12"),
        (("timm:vit_tiny_patch16_224",), "name some with --data"),
        (("scenes", "--images", 1), "1 is too few"),
    ):
        code, out, err = call("dynamics", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
