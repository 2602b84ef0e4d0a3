"""`raptor probe`: the contract of its result, three sets that share nothing, features kept or not, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import raptor
from probed import assert_read_back
from raptor.data.load import load_images
from raptor.data.train_val_test import load_train_val_test
from raptor.errors import DataError, OptionError
from raptor.models.vit import ViT, ViTConfig
from raptor.probes.results import ProbeReport

QUICK = ("--images", 60, "--eval-images", 40, "--epochs", 1, "--seeds", 2, "--lrs", "1e-3,1e-2", "--device", "cpu")
METRICS = {"classify": ("top1", "top5"), "segment": ("miou", "pixel_accuracy"), "depth": ("rmse", "abs_rel", "delta1")}


def probed(call, *arguments):
    code, out, err = call("probe", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def teacher():
    return raptor.load_model(ViT(ViTConfig(depth=1, width=8, heads=1)))


def class_folders(root, images=20, size=64, colours=(40, 200)):
    rng = np.random.default_rng(0)
    for name, colour in zip("ab", colours, strict=True):
        (root / name).mkdir(parents=True)
        for index in range(images // 2):
            pixels = rng.integers(colour - 30, colour + 30, (size, size, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{name}{index}.png")
    return root


@pytest.mark.parametrize("task", METRICS)
def test_keys_of_a_task(call, tmp_path, task):
    result = probed(call, "scenes", "--task", task, *QUICK, "--out", tmp_path / "run")
    for metric in METRICS[task]:
        low, high = result[f"{metric}_ci"]
        assert low <= result[metric] <= high
        assert np.mean(result[f"{metric}_by_seed"]) == pytest.approx(result[metric])
        assert result["heads"]["fine-tuned"][metric] == result[metric]
    assert result["head"] == "fine-tuned"
    assert set(result["heads"]) == {"fine-tuned", "constant"} | ({"own"} if task == "classify" else set())
    assert (result["verb"], result["images"], result["layers"], result["layer"]) == ("probe", 40, 12, 12)
    assert result["images_by_split"] == {"train": 60, "select": 40, "report": 40}
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    record = assert_read_back(ProbeReport, result)
    assert list(record.result.by_task) == [task]
    assert set(record.about) == {"model", "data", "eval_data"}


def test_without_a_task_all_that_the_images_have(call):
    result = probed(call, "scenes:k3", *QUICK)
    assert result["task"] == "classify,segment,depth"
    for task, metrics in METRICS.items():
        assert all(np.isfinite(result["tasks"][task][metric]) for metric in metrics)
    assert list(assert_read_back(ProbeReport, result).result.by_task) == list(METRICS)


def test_own_head_is_what_the_model_says(call, teacher):
    result = probed(call, "scenes", "--task", "classify", *QUICK)
    scenes = raptor.load_model("scenes")
    (batch,) = load_images("scenes:test", scenes, images=40, batch_size=40)
    with torch.no_grad():
        last = raptor.rollout(scenes, scenes.embed(batch.pixels)).at(12)
        right = (scenes.head(last).argmax(dim=1) == batch.label).float().mean().item()
    assert result["heads"]["own"]["top1"] == pytest.approx(right)


@pytest.mark.long
def test_stitched_models_and_lower_layers(call):
    at_zero = probed(call, "scenes", "--task", "segment", "--layer", 0, *QUICK)
    assert at_zero["layer"] == 0
    stitched = probed(call, "stitch:scenes:k3@0", "--task", "classify", *QUICK)
    own = probed(call, "scenes", "--task", "classify", *QUICK)
    assert stitched["heads"]["own"] == own["heads"]["own"]  # nothing of the surrogate is in it


@pytest.mark.long
def test_kept_on_disk_in_memory_or_not_at_all_is_the_same_up_to_rounding(call, tmp_path):
    folder = class_folders(tmp_path / "data", images=60)
    torch.manual_seed(0)
    options = ("--task", "classify", "--epochs", 2, "--seeds", 1, "--lrs", "1e-2")
    runs = [
        probed(call, "scenes", "--data", folder, *options, *more)
        for more in ((), ("--live",), ("--cache", tmp_path / "kept"))
    ]
    assert {name.name for name in (tmp_path / "kept").glob("*.npy")} == {
        f"raptor-{field}-00000.npy" for field in ("cls", "mean", "own", "label")
    }
    for result in runs[1:]:
        assert result["top1"] == runs[0]["top1"]
        assert result["selection"] == runs[0]["selection"]
    assert "own" not in runs[0]["heads"]  # twelve classes are not two


def test_a_set_with_three_splits_uses_them(teacher):
    sets = load_train_val_test("scenes", teacher, images=30, eval_images=20)
    assert [(images.split, len(images)) for images in sets] == [("train", 30), ("validation", 20), ("test", 20)]
    sets = load_train_val_test("scenes", teacher, "scenes:test", images=30)
    assert [images.split for images in sets] == ["train", "validation", "test"]


def names(images):
    return {images.records.name_of(index) for index in range(len(images))}


def test_a_set_without_splits_is_parted_in_three(teacher, tmp_path):
    sets = load_train_val_test(str(class_folders(tmp_path / "flat", images=50)), teacher)
    found = [names(images) for images in sets]
    assert [len(part) for part in found] == [36, 4, 10]
    assert len(set.union(*found)) == 50
    again = load_train_val_test(str(tmp_path / "flat"), teacher, seed=5)
    assert [names(images) for images in again] == found


def test_what_is_reported_on_is_never_selected_on(teacher, tmp_path):
    root = tmp_path / "splits"
    for split, n in (("train", 20), ("val", 10), ("test", 6)):
        class_folders(root / split, images=n)
    assert [len(images) for images in load_train_val_test(str(root), teacher)] == [20, 10, 6]
    for reported in (f"{root}:val", f"{root}/val", f"{root}/../splits/val"):
        sets = load_train_val_test(str(root), teacher, reported)
        assert [len(images) for images in sets] == [18, 2, 10]
        assert not sets.train.image_keys() & sets.val.image_keys()
        assert not sets.val.image_keys() & sets.test.image_keys()
    sets = load_train_val_test(f"{root}:val", teacher, f"{root}:test")
    assert [len(images) for images in sets] == [9, 1, 6]


def test_what_is_trained_on_is_never_reported_on(teacher, tmp_path, monkeypatch):
    flat = class_folders(tmp_path / "flat", images=50)
    monkeypatch.chdir(tmp_path)
    for data, reported in ((flat, flat), (f"{flat}:test", f"{flat}:val"), (flat, "./flat/../flat:train")):
        with pytest.raises(OptionError, match="in both the training and the test set"):
            load_train_val_test(str(data), teacher, str(reported))


def test_parquet_rows_are_told_apart_by_their_file(teacher, tmp_path):
    import datasets

    for split, n in (("train", 12), ("test", 6)):
        pictures = [Image.new("RGB", (64, 64), (9 * i, 0, 0)) for i in range(n)]
        columns = {"image": pictures, "label": [i % 2 for i in range(n)]}
        datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image()).to_parquet(
            tmp_path / f"{split}-00000-of-00001.parquet"
        )
    assert [len(images) for images in load_train_val_test(str(tmp_path), teacher)] == [11, 1, 6]
    with pytest.raises(OptionError, match="in both the training and the test set"):
        load_train_val_test(str(tmp_path), teacher, str(tmp_path / "train-00000-of-00001.parquet"))


def test_one_damaged_image_of_the_few_to_select_on_does_not_end_a_probe(teacher, tmp_path):
    """What is tolerated is a share of the images that were parted, not of the tenth."""
    root = class_folders(tmp_path / "flat", images=300)
    sets = load_train_val_test(str(root), teacher)
    for images, n in zip(sets[:2], (1, 1), strict=True):
        for key in sorted(images.image_keys())[:n]:
            Path(key).write_bytes(b"nothing")
    assert [sum(len(batch) for batch in images) for images in sets] == [215, 23, 60]
    assert [len(images.damaged) for images in sets] == [1, 1, 0]


@pytest.mark.long
def test_a_cache_is_of_one_model_layer_and_labels(call, tmp_path):
    folder, kept = class_folders(tmp_path / "data", images=40), tmp_path / "kept"
    options = ("--data", folder, "--task", "classify", "--epochs", 1, "--seeds", 1, "--lrs", "1e-2", "--cache", kept)
    first = probed(call, "stitch:scenes:k3@3", *options)
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.npy")}
    assert probed(call, "stitch:scenes:k3@3", *options)["selection"] == first["selection"]
    assert {path: path.stat().st_mtime_ns for path in kept.glob("*.npy")} == before
    for model, more, differs in (
        ("stitch:scenes:k3@9", (), "teacher"),
        ("stitch:scenes:k3@3", ("--layer", 4), "layer"),
        ("stitch:scenes:k3@3", ("--images", 20), "images"),
    ):
        code, _, err = call("probe", model, *options, *more)
        assert code == 2
        assert f"has {differs} =" in err


def test_mistakes_are_one_line(call, teacher, tmp_path):
    folder = class_folders(tmp_path / "data")
    (tmp_path / "plain").mkdir()
    for index in range(4):
        Image.new("RGB", (64, 64), (9 * index, 0, 0)).save(tmp_path / "plain" / f"{index}.png")
    for arguments, said in (
        (("scenes", "--task", "count"), "no task 'count'; use classify, segment, depth"),
        (("scenes", "--data", folder, "--task", "depth"), "the task 'depth' needs depths"),
        (("scenes", "--data", tmp_path / "plain"), "no labels, no masks, no depths"),
        (("scenes", "--layer", 13), "'scenes' has layers 0 to 12, not 13"),
        (("scenes", "--lrs", "fast"), "'fast'"),
        (("scenes", "--lrs", "0"), "not [0.0]"),
        (("scenes", "--live", "--cache", tmp_path / "kept"), "give --live or --cache"),
        (("scenes", "--data", "scenes:train", "--eval-data", "scenes:train"), "in both the training and the test set"),
        (("scenes", "--data", folder / "a", "--eval-data", tmp_path / "plain", "--task", "classify"), "needs labels"),
        (("scenes", "--epochs", "nan"), "epochs must be positive, not nan"),
        (("scenes", "--data", "scenes:validation", "--eval-data", "scenes:test"), "no validation images remain"),
        (("timm:vit_tiny_patch16_224",), "add --data"),
        (("scenes", "--eigen-crop"), "use --fit pad --image-size 490x644"),
        (("scenes", "--fit", "stretch"), "unknown fit 'stretch'; use own, squash or pad"),
    ):
        code, out, err = call("probe", *arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err, (arguments, err)
        assert err.count("\n") == 1


def test_sets_with_other_classes_are_refused(teacher, tmp_path):
    one, other = class_folders(tmp_path / "one"), class_folders(tmp_path / "other")
    (other / "b").rename(other / "c")
    with pytest.raises(DataError, match="different classes"):
        load_train_val_test(str(one), teacher, str(other))
    for split, classes in (("train", "abc"), ("val", "ac"), ("test", "abc")):
        for name in classes:
            (tmp_path / "splits" / split / name).mkdir(parents=True)
            Image.new("RGB", (64, 64)).save(tmp_path / "splits" / split / name / "0.png")
    # A split that lacks a class has the others by the same numbers.
    sets = load_train_val_test(str(tmp_path / "splits"), teacher)
    assert [images.classes for images in sets] == [("a", "b", "c")] * 3
    assert torch.cat([batch.label for batch in sets.val]).tolist() == [0, 2]
