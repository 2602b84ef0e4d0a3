"""HDF5 files and lists of names from anybody: they hold what they say, and lead to no files of elsewhere."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pytest
from scipy.io import savemat

import raptor
from hostile import check_refused, vit  # noqa: F401
from pictures import PLAIN, picture


def test_hdf5_files_that_lead_elsewhere_are_refused(call, tmp_path, vit):  # noqa: F811
    secret = tmp_path / "secret"
    with h5py.File(secret, "w") as file:
        file["rgb"] = np.zeros((3, 6, 8), np.uint8)
    kinds = {
        "link": lambda file: file.__setitem__("rgb", h5py.ExternalLink(str(secret), "rgb")),
        "raw": lambda file: file.create_dataset("rgb", (3, 6, 8), "u1", external=[(str(secret), 0, 144)]),
        "virtual": lambda file: file.create_virtual_dataset("rgb", virtual(secret)),
        "huge": lambda file: file.create_dataset("rgb", (3, 2**20, 2**20), "u1", chunks=(1, 64, 64)),
        "words": lambda file: file.create_dataset("rgb", data=np.full((3, 6, 8), b"x")),
        "flat": lambda file: file.create_dataset("rgb", data=np.zeros(9, np.uint8)),
        "group": lambda file: file.create_group("rgb"),
    }
    for name, make in kinds.items():
        folder = tmp_path / name / "train"
        folder.mkdir(parents=True)
        with h5py.File(folder / "a.h5", "w") as file:
            make(file)
            file["depth"] = np.zeros((6, 8), np.float32)
        check_refused(call("inspect", vit, "--data", folder.parent), "a.h5")


def virtual(secret):
    layout = h5py.VirtualLayout((3, 6, 8), "u1")
    layout[:] = h5py.VirtualSource(str(secret), "rgb", (3, 6, 8))
    return layout


@pytest.mark.parametrize("numbers", [[0], [4], [-1], [2**31], [0.5], ["a"], [[1, 2], [3, 9]]], ids=str)
def test_splits_name_images_that_there_are(call, tmp_path, vit, numbers):  # noqa: F811
    with h5py.File(tmp_path / "nyu.mat", "w") as file:
        file["images"], file["depths"] = np.zeros((3, 3, 8, 6), np.uint8), np.zeros((3, 8, 6), np.float32)
    savemat(tmp_path / "splits.mat", {"trainNdxs": np.array([[1]]), "testNdxs": np.array(numbers, ndmin=2)})
    check_refused(call("inspect", vit, "--data", tmp_path / "nyu.mat"), "splits.mat")


def test_lists_name_no_files_of_elsewhere(call, vit, tmp_path):  # noqa: F811
    """Pascal VOC keeps the names of its images in lists."""
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (tmp_path / "voc" / name).mkdir(parents=True)
    picture(1).save(tmp_path / "secret.jpg")
    picture(1, "L").save(tmp_path / "secret.png")
    for name in ("../../secret", str(tmp_path / "secret"), "/etc/passwd", "a/b"):
        (tmp_path / "voc" / "ImageSets" / "Segmentation" / "val.txt").write_text(name)
        check_refused(call("inspect", vit, "--data", tmp_path / "voc"), "which is not a plain image name")
    (tmp_path / "voc" / "ImageSets" / "Segmentation" / "val.txt").write_bytes(b"\xff\xfe\0")
    check_refused(call("inspect", vit, "--data", tmp_path / "voc"), "val.txt")


def test_names_of_classes_may_be_any_bytes(tmp_path):
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    picture(1).save(tmp_path / "images" / "a.png")
    picture(1, "L").save(tmp_path / "masks" / "a.png")
    (tmp_path / "classes.txt").write_bytes(b"<script>\n\xff\xfe\n\n")
    assert raptor.load_images(tmp_path, PLAIN).mask_classes == ("<script>", "\ufffd\ufffd")
    os.unlink(tmp_path / "classes.txt")
    os.mkfifo(tmp_path / "classes.txt")
    assert raptor.load_images(tmp_path, PLAIN).mask_classes is None
