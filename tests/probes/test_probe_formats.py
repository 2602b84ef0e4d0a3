"""Probes of data as people have it: ADE20k's folders, Pascal VOC, the labelled file of NYU Depth v2, CamVid's pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from scipy.io import savemat

from pictures import REAL, save
from raptor.core.preprocessing import Preprocessing
from raptor.data.load import load_images

SIZE = 70
QUICK = ("--epochs", 4, "--image-size", SIZE, "--seeds", 1, "--lrs", "1e-2", "--device", "cpu", "--json")


@pytest.fixture
def model(tmp_path):
    """A tiny DINOv2 on disk, which takes images of any size that divides into its patches."""
    torch.manual_seed(0)
    config = transformers.Dinov2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=SIZE)
    transformers.Dinov2Model(config).save_pretrained(tmp_path / "dinov2")
    return tmp_path / "dinov2"


def halves(seed, size=(SIZE, SIZE)):
    """A picture that is dark on one side and bright on the other, and which side is which."""
    rng = np.random.default_rng(seed)
    bright = np.zeros(size, dtype=np.uint8)
    cut = size[1] // 2
    bright[:, slice(0, cut) if rng.random() < 0.5 else slice(cut, None)] = 1
    noise = rng.integers(0, 60, (*size, 3))
    return (noise + 190 * bright[..., None]).astype(np.uint8), bright


def ade20k(root):
    root = root / "ADEChallengeData2016"
    for split, seeds in (("training", range(40)), ("validation", range(40, 48))):
        for seed in seeds:
            picture, bright = halves(seed)
            save(picture, root / "images" / split / f"ADE_{seed}.jpg")
            save(bright + 1, root / "annotations" / split / f"ADE_{seed}.png")
    return root


def voc(root):
    for split, seeds in (("train", range(40)), ("val", range(40, 48))):
        for seed in seeds:
            picture, bright = halves(seed)
            bright[:2] = 255
            save(picture, root / "JPEGImages" / f"{seed}.jpg")
            save(bright, root / "SegmentationClass" / f"{seed}.png")
        listed = root / "ImageSets" / "Segmentation" / f"{split}.txt"
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("\n".join(map(str, seeds)))
    return root


@pytest.mark.parametrize(("make", "classes"), [(ade20k, 150), (voc, 21)])
def test_segmentation(call, tmp_path, model, make, classes):
    """Of so many classes two are there; which side is bright is easy, which no constant answer can tell."""
    code, out, err = call("probe", model, "--data", make(tmp_path / "data"), "--task", "segment", *QUICK)
    assert code == 0, err
    result = json.loads(out)
    assert result["images_by_split"] == {"train": 36, "select": 4, "report": 8}
    assert load_images(str(tmp_path / "data" / "ADEChallengeData2016" if make is ade20k else tmp_path / "data"),
                       Preprocessing()).n_mask_classes == classes  # fmt: skip
    assert result["pixel_accuracy"] > 0.9
    assert result["heads"]["constant"]["pixel_accuracy"] == pytest.approx(0.5, abs=0.01)
    assert result["miou"] > 0.8 > result["heads"]["constant"]["miou"]


def test_depth_on_eigens_crop(call, tmp_path, model):
    """The labelled file: 480x640, padded to what divides into patches; dark is near and bright is far."""
    h5py = pytest.importorskip("h5py")
    pictures, sides = zip(*(halves(seed, (480, 640)) for seed in range(14)), strict=True)
    depths = 2.0 + 6.0 * np.stack(sides).astype(np.float32)
    depths[:, :45], depths[:, 471:] = 0.0, 30.0  # outside the crop, nothing counts
    path = tmp_path / "nyu_depth_v2_labeled.mat"
    with h5py.File(path, "w") as file:
        file["images"], file["depths"] = np.stack(pictures).transpose(0, 3, 2, 1), depths.transpose(0, 2, 1)
    savemat(tmp_path / "splits.mat", {"trainNdxs": np.arange(1, 11)[:, None], "testNdxs": np.arange(11, 15)[:, None]})
    options = (*QUICK, "--task", "depth", "--fit", "pad", "--image-size", "490x644", "--lrs", "0.1", "--epochs", 12)
    code, out, err = call("probe", model, "--data", path, *options, "--eigen-crop")
    assert code == 0, err
    cropped = json.loads(out)
    code, out, err = call("probe", model, "--data", path, *options)
    whole = json.loads(out)
    assert cropped["images"] == 4
    assert cropped["rmse"] < 0.5 * cropped["heads"]["constant"]["rmse"]
    assert cropped["rmse"] < 0.5 * whole["rmse"]


CAMVID = REAL / "camvid"


@pytest.mark.skipif(not CAMVID.is_dir(), reason="CamVid is not at hand")
def test_camvid(call, model):
    options = ("--task", "segment", "--fit", "squash", "--images", 60, "--eval-images", 20)
    code, out, err = call("probe", model, "--data", CAMVID, *options, *QUICK)
    assert code == 0, err
    result = json.loads(out)
    assert result["images_by_split"] == {"train": 60, "select": 20, "report": 20}
    assert result["pixel_accuracy"] > result["heads"]["constant"]["pixel_accuracy"]
