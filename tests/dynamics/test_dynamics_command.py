"""`raptor dynamics`: the contract of its result on teacher and surrogate."""

from __future__ import annotations

import csv
import json
from functools import partial

import numpy as np
import pytest

from raptor.dynamics import survey
from raptor.dynamics.claims import rotation
from raptor.dynamics.lyapunov import lyapunov_exponents
from raptor.dynamics.perturbations.perturb import perturb
from vits import family

GROUPS = {"cls": 1, "register": 4, "patch": 64}
FIGURES = {
    "trajectories", "convergence", "norms", "correction", "sensitivity", "speed", "ranks", "coherence", "dmd", "basins",
    "expansion", "mixing", "curvature"}  # fmt: skip


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Everything is measured, on less."""
    monkeypatch.setattr(rotation, "DRAWS", 39)
    monkeypatch.setattr(survey, "lyapunov_exponents", partial(lyapunov_exponents, vectors=2, iterations=1))
    monkeypatch.setattr(survey, "perturb", partial(perturb, layers=(0, 6, 11), draws=1))


def test_keys(call, tmp_path):
    few = ("--perturbation-images", 2, "--lyapunov-images", 1, "--coupling-images", 1)
    code, out, err = call("dynamics", "scenes", "--images", 24, *few, "--device", "cpu", "--out", tmp_path, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["verb"], result["images"], result["layers"]) == ("dynamics", 24, 12)
    for name, length in (("norm", 13), ("gamma", 13), ("speed", 12), ("speed_std", 12), ("stable_rank", 12),
                         ("entropy_rank", 12), ("participation_ratio", 12), ("coherence", 12),
                         ("image_stable_rank", 12)):  # fmt: skip
        for group, values in result[name].items():
            assert len(values) == length
            assert all(np.isfinite(values))
            lows, highs = result[f"{name}_ci"][group]
            assert len(lows) == len(highs) == length
        lacking = {"cls"} if name in ("coherence", "image_stable_rank") else set()
        assert set(result[name]) == set(GROUPS) - lacking
    assert result["gamma"]["cls"][12] == pytest.approx(1.0, abs=1e-5)
    for group, count in GROUPS.items():
        assert 0 < result["settled_layer"][group] <= 12
        dmd = result["dmd"][group]
        assert len(dmd["eigenvalues"]) == len(dmd["amplitudes"]) == dmd["rank"] <= 10
        assert len(dmd["one_step_error"]) == result["last_layer"][group]
        assert dmd["single_images"]["n"] == 24
        assert len(dmd["single_images"]["spectral_radius_ci"]) == 2
        assert result["basins"][group]["n"] <= 12
        assert np.shape(next(iter(result["paths"][group]["classes"].values()))) == (13, 3)
        if count > 1:
            assert result["coherence_floor"][group] == pytest.approx(count**-0.5)
    assert set(result["correction"]) == {"layers", "epsilons", "draws", "images", *GROUPS}
    assert len(result["correction"]["cls"]["return_time_and_gamma"]) == 5
    assert np.shape(result["sensitivity"]["cls->patch"]["over_square"]) == (3, 5)
    assert np.shape(result["sensitivity"]["cls->cls"]["passive"]) == (3, 5)
    assert result["last_layer"] == {"cls": 12, "register": 11, "patch": 11}  # the head reads cls alone
    assert result["mixing"]["layers"] == [0, 2, 4, 6, 8, 10, 12]
    if result["stationarity"] is not None:
        assert result["stationarity"]["guarded"]
    phases = result["phases"].split("-")
    assert sum(map(int, phases)) == 12
    assert [len(phase) for phase in result["lyapunov"]["mean"]] == [2] * len(phases)
    assert "beyond" not in result
    assert result["against"] is None
    assert len(result["claims"]) == 14
    for claim in result["claims"]:
        assert {"text", "held", "effect", "ci", "null", "p_adjusted", "figure"} <= set(claim)
        assert claim["figure"] in FIGURES
    assert {figure.split("/")[1].split(".")[0] for figure in result["figures"]} == FIGURES
    with (tmp_path / "figures" / "speed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows if row["group"] == "cls"] == result["speed"]["cls"]


@pytest.mark.long
def test_a_surrogate_beside_its_teacher_and_another(call, tmp_path):
    code, out, err = call(
        "dynamics", "scenes", "--phases", "7-5", "--against", "scenes:k2", "--against", "scenes:k3",
        "--images", 24, "--device", "cpu", "--out", tmp_path, "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert result["phases"] == "7-5"
    assert result["stationarity"]["guarded"]
    against = result["against"]
    assert set(against["models"]) == {"scenes:k2", "scenes:k3"}
    assert "beyond" in against["models"]["scenes:k2"]
    assert set(against["distances"]) == {"scenes | scenes:k2", "scenes | scenes:k3", "scenes:k2 | scenes:k3"}
    gaps = np.abs(np.array(result["speed"]["cls"]) - against["models"]["scenes:k2"]["speed"]["cls"])
    assert against["distances"]["scenes | scenes:k2"]["speed"]["cls"]["mean"] == pytest.approx(gaps.mean())
    assert (tmp_path / "figures" / "against.png").exists()


@pytest.mark.long
@pytest.mark.parametrize("registers", [0, 2])
def test_a_single_patch_moves_with_no_other(call, tmp_path, registers):
    small = ("--steps", 1, "--batch-size", 4, "--depth", 12, "--width", 16, "--heads", 2, "--registers", registers)
    train = ("train", "--data", "scenes", "--image-size", 32, "--patch-size", 32, "--eval-images", 4, *small)
    assert call(*train, "--device", "cpu", "--out", tmp_path / "vit")[0] == 0
    code, out, err = call("dynamics", tmp_path / "vit", "--data", "scenes", "--images", 8, "--device", "cpu",
                          "--phases", "6-6", "--out", tmp_path / "run", "--json")  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert set(result["coherence"]) == ({"register"} if registers else set())
    (claim,) = [
        claim for claim in result["claims"] if claim["text"] == "the updates of patches become more coherent with depth"
    ]
    assert (claim["held"], claim["evidence"]) == (None, "there is only one patch")
    assert call("report", tmp_path / "run", "--out", tmp_path / "page.html")[0] == 0


@pytest.mark.long
def test_images_without_labels_have_no_basins(call, flat):
    code, out, err = call("dynamics", "scenes:k2", "--data", flat, "--device", "cpu", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["images"], result["basins"], result["phases"]) == (10, None, "7-5")
    assert list(result["paths"]["cls"]["classes"]) == ["all"]
    assert len(result["beyond"]["speed"]["cls"]) == 48
    assert result["figures"] == []


@pytest.mark.long
def test_a_person_reads_claims_and_distances(call):
    code, out, err = call("dynamics", "scenes:k2", "--against", "scenes:k3", "--images", 8, "--device", "cpu")
    assert code == 0, err
    assert "does not hold" in out
    assert "A second --against" in " ".join(out.split())


def test_mistakes_are_one_line(call, tmp_path, capfd):
    family("vit").build().save_pretrained(tmp_path)
    capfd.readouterr()  # it shows its progress
    for arguments, said in (
        (("scenes", "--phases", "5-5"), "12"),
        (("timm:vit_tiny_patch16_224",), "--data"),
        (("scenes", "--images", 1), "at least 2"),
        (("scenes", "--images", 4, "--against", tmp_path), "cannot be compared"),
        (("scenes", "--images", 4, "--against", "scenes"), "twice"),
    ):
        code, out, err = call("dynamics", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
