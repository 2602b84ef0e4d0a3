"""`raptor fidelity`: linear baselines and null teachers from the command line, and mistakes in one line."""

from __future__ import annotations

import json

import pytest
import torch

from pictures import picture
from raptor.core.preprocessing import Preprocessing
from raptor.models.checkpoints import save_vit
from raptor.models.vit import ViT, ViTConfig

QUICK = ("--device", "cpu", "--quiet")
IMAGES = ("--images", 8, "--batch-size", 4)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("vit")
    save_vit(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)), Preprocessing((64, 64), None), folder)
    return folder


@pytest.fixture
def surrogate(call, vit, tmp_path):
    small = ("--phases", "2-2", "--steps", 2, "--batch-size", 4, "--eval-images", 8)
    code, _, err = call("distill", vit, "--data", "scenes", *small, "--out", tmp_path / "a", *QUICK)
    assert code == 0, err
    return tmp_path / "a"


def test_baselines_and_nulls_are_in_the_result_and_in_the_tables(call, surrogate, tmp_path):
    asked = ("--nulls", "--null-steps", 2, "--linear-images", 6)
    command = ("fidelity", surrogate, "--data", "scenes", *IMAGES, *asked, "--device", "cpu")
    code, out, err = call(*command, "--json", "--out", tmp_path / "b")
    assert code == 0, err
    result = json.loads(out)
    assert set(result["nulls"]) == {"teacher", "random", "untrained", "shuffled"}
    assert result["nulls"]["random"]["steps"] == [2, 2]
    assert len(result["nulls"]["random"]["update_r2_ci"]["all"][0]) == 4
    assert (result["linear"]["fit_images"], result["linear"]["n"]) == (3, 3)
    assert len(result["skill"]["patch"]) == len(result["phase_skill"]["all"]) == len(result["update_r2"]["cls"]) == 4
    config = json.loads((tmp_path / "b/config.json").read_text())
    assert (config["linear_images"], config["nulls"], config["null_steps"]) == (6, True, 2)
    code, out, err = call("report", tmp_path / "b", "--out", tmp_path / "report.html")
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    assert 'data-key="linear/operator/r2/all/0"' in page
    assert 'data-key="nulls/random/skill/all/-1"' in page
    assert 'data-key="skill/all/-1"' in page


def test_a_person_sees_them(call, surrogate):
    code, out, err = call("fidelity", surrogate, "--data", "scenes", *IMAGES, "--device", "cpu")
    assert code == 0, err
    assert "skill" in out
    assert "affine map, applied once" in out
    assert "null teachers" not in out


def test_the_nulls_are_trained_as_the_surrogate_was(call, surrogate):
    code, out, err = call("fidelity", surrogate, "--data", "scenes", *IMAGES, "--nulls", "--json", *QUICK)
    assert code == 0, err
    nulls = json.loads(out)["nulls"]
    assert set(nulls) == {"random", "untrained", "shuffled"}
    assert nulls["shuffled"]["steps"] == [2, 2]


def test_nulls_train_on_the_rest_of_a_folder(call, surrogate, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for value in range(20):
        picture(value * 10).save(folder / f"{value}.png")
    code, out, err = call("fidelity", surrogate, "--data", folder, "--nulls", "--null-steps", 1, "--json", *QUICK)
    assert code == 0, err
    assert json.loads(out)["nulls"]["random"]["n"] == 4  # the held-out fifth


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--linear-images", "-1"), "linear-images"),
        (("--linear-images", "many"), "linear-images"),
        (("--nulls", "--null-steps", "0"), "null-steps"),
        (("--null-steps", "3"), "--null-steps needs --nulls"),
        (("--nulls", "--data", "scenes:train", "--images", "8"), "both trained and measured on"),
    ],
)
def test_mistakes_are_one_line(call, arguments, message):
    code, out, err = call("fidelity", "scenes:k2", *QUICK, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_nulls_need_a_record_of_the_training(call, surrogate):
    config = json.loads((surrogate / "model/config.json").read_text())
    del config["provenance"]["training"]
    (surrogate / "model/config.json").write_text(json.dumps(config))
    code, out, err = call("fidelity", surrogate, "--data", "scenes", *IMAGES, "--nulls", *QUICK)
    assert (code, out) == (2, "")
    assert "no record of its training" in err
    assert err.count("\n") == 1
