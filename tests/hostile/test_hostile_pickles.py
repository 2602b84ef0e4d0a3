"""Pickles in every place where a file is read: none is ever run, and each is refused in one line."""

from __future__ import annotations

import json
import pickle
import shutil

import h5py
import numpy as np
import pytest
import safetensors
import torch

import raptor
from hostile import SMALL, TRAIN, TRAPS, Trap, check_refused, checkpoint, surrogate, vit, zipped  # noqa: F401
from raptor.core.phases import Phases
from raptor.errors import WeightsError


@pytest.mark.parametrize(
    ("kind", "careless"),
    [
        ("zipped", lambda path: torch.load(path, weights_only=False)),
        ("old", lambda path: torch.load(path, weights_only=False)),
        ("plain", lambda path: pickle.loads(path.read_bytes())),
        ("objects", lambda path: np.load(path, allow_pickle=True)),
        ("several", lambda path: np.load(path, allow_pickle=True)["states"]),
    ],
)
def test_the_traps_work(tmp_path, kind, careless):
    """What follows would mean nothing if these files did nothing."""
    TRAPS[kind](Trap(tmp_path / "executed"), tmp_path / "file")
    careless(tmp_path / "file")
    assert (tmp_path / "executed").exists()


# Where a file is read: how it is put there, and the command that meets it.
def weights(root, made, vit, surrogate, checkpoint):  # noqa: F811
    for ending in ("pth", "safetensors", "bin", "npy"):
        yield ("inspect", checkpoint, "--weights", shutil.copy(made, root / f"w.{ending}"))
        yield ("inspect", vit, "--head", shutil.copy(made, root / f"h.{ending}"))
        yield ("inspect", "dinov2:vits14", "--weights", root / f"w.{ending}")
        yield ("phases", checkpoint, "--data", "scenes", "--weights", root / f"w.{ending}")
    yield ("inspect", "timm:vit_tiny_patch16_224", "--weights", root / "w.pth")


def models(root, made, vit, surrogate, checkpoint):  # noqa: F811
    for number, (source, name) in enumerate(
        [(checkpoint, "model.safetensors"), (checkpoint, "pytorch_model.bin"), (vit, "model.safetensors"),
         (surrogate, "model.safetensors"), (surrogate, "pytorch_model.bin"), (checkpoint, "config.json"),
         (checkpoint, "preprocessor_config.json"), (vit, "config.json"), (surrogate, "config.json")]
    ):  # fmt: skip
        folder = shutil.copytree(source, root / f"model{number}")
        if name.endswith(".bin"):
            (folder / "model.safetensors").unlink()
        shutil.copy(made, folder / name)
        yield ("inspect", folder)
    folder = shutil.copytree(checkpoint, root / "parts")
    names = safetensors_names(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shutil.copy(made, folder / "part.bin")
    listed = {"metadata": {}, "weight_map": dict.fromkeys(names, "part.bin")}
    for index in ("pytorch_model.bin.index.json", "model.safetensors.index.json"):
        (folder / index).write_text(json.dumps(listed))
        yield ("inspect", folder)
        (folder / index).unlink()


def safetensors_names(path):
    with safetensors.safe_open(path, "pt") as file:
        return list(file.keys())


def trainings(root, made, vit, surrogate, checkpoint):  # noqa: F811
    for name in ("train", "distill/stage1", "distill/stage2", "study/teachers/standard-s0"):
        (root / name).mkdir(parents=True)
        shutil.copy(made, root / name / "checkpoint.pt")
    yield (*TRAIN, *SMALL, "--resume", "--out", root / "train")
    yield ("distill", vit, "--data", "scenes", "--phases", "2-1", "--steps", 2, "--image-size", 16, "--resume", "--out",
           root / "distill", *SMALL)  # fmt: skip
    yield ("study", "partitions", "--size", "smoke", "--resume", "--quiet", "--out", root / "study")


def arrays(root, made, vit, surrogate, checkpoint):  # noqa: F811
    for ending in ("npy", "npz", "csv", "json", "mat"):
        yield ("phases", "--matrix", shutil.copy(made, root / f"matrix.{ending}"))
    (root / "nyu").mkdir()
    yield ("inspect", vit, "--data", shutil.copy(made, root / "nyu" / "labelled.mat"))
    with h5py.File(root / "nyu" / "labelled.mat", "w") as file:
        file["images"], file["depths"] = np.zeros((2, 3, 8, 6), np.uint8), np.zeros((2, 8, 6), np.float32)
    shutil.copy(made, root / "nyu" / "splits.mat")
    yield ("inspect", vit, "--data", root / "nyu" / "labelled.mat")
    (root / "h5" / "train").mkdir(parents=True)
    shutil.copy(made, root / "h5" / "train" / "a.h5")
    yield ("inspect", vit, "--data", root / "h5")
    yield ("inspect", vit, "--data", shutil.copy(made, root / "table.parquet"))
    yield ("report", shutil.copy(made, root / "nyu" / "config.json").parent)


@pytest.mark.parametrize("kind", TRAPS)
@pytest.mark.parametrize("place", [weights, models, trainings, arrays])
def test_nothing_that_is_read_is_run(call, tmp_path, vit, surrogate, checkpoint, place, kind):  # noqa: F811
    made = tmp_path / "made"
    TRAPS[kind](Trap(tmp_path / "executed"), made)
    for arguments in place(tmp_path, made, vit, surrogate, checkpoint):
        check_refused(call(*arguments))
        assert not (tmp_path / "executed").exists(), arguments


@pytest.mark.parametrize("kind", TRAPS)
def test_released_surrogates_are_not_run(tmp_path, vit, kind):  # noqa: F811
    TRAPS[kind](Trap(tmp_path / "executed"), tmp_path / "made")
    with pytest.raises(WeightsError):
        raptor.load_released(tmp_path / "made", raptor.load_model(vit), Phases((2, 1)))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("kind", TRAPS)
def test_kept_features_are_not_run(call, tmp_path, vit, kind):  # noqa: F811
    command = ("probe", vit, "--data", "scenes", "--task", "classify", "--epochs", 1, "--seeds", 1, "--cache",
               tmp_path / "cache", "--images", 24, "--eval-images", 4, *SMALL)  # fmt: skip
    assert call(*command)[0] == 0
    files = sorted((tmp_path / "cache").rglob("*.npy"))
    assert files
    for file in files:
        TRAPS[kind](Trap(tmp_path / "executed"), file)
    check_refused(call(*command), "is damaged")
    assert not (tmp_path / "executed").exists()


@pytest.mark.long
def test_students_of_studies_are_not_run(call, tmp_path):
    study = ("study", "partitions", "--size", "smoke", "--out", tmp_path / "study", "--quiet", *SMALL[2:])
    assert call(*study)[0] == 0
    checkpoints = sorted((tmp_path / "study" / "students").rglob("checkpoint.pt"))
    assert checkpoints
    for path in checkpoints:
        zipped(Trap(tmp_path / "executed"), path)
    for path in [
        *(tmp_path / "study" / "students").glob("*.json"),
        *(tmp_path / "study" / "partitions").glob("*-*.json"),
    ]:
        path.unlink()
    check_refused(call(*study, "--resume"), "checkpoint")
    assert not (tmp_path / "executed").exists()
