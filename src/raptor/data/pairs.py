"""Images with masks: a folder of images and one of masks, ADE20k, or Pascal VOC."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from raptor.data.folders import image_files, split_folders
from raptor.data.records import Files, Mask, Record
from raptor.errors import DataError

MASK_FOLDERS = ("annotations", "annotation", "masks", "mask", "labels", "segmentation", "gt")
VOC_FOLDERS = ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation")
VOC_CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
ADE_CLASSES, ADE_NAMES = 150, "objectInfo150.txt"

Readers = dict[str, Callable[[], "PairRecords"]]


@dataclass(frozen=True)
class PairRecords(Files):
    """Image files, each with a file of class ids."""

    masks: tuple[Path, ...]
    mask_classes: tuple[str, ...] | None
    n_mask_classes: int | None
    from_one: bool = False
    classes: None = None

    def __getitem__(self, index: int) -> Record:
        mask = Mask(self.masks[index], self.n_mask_classes, self.from_one)
        return Record(self.files[index], None, self.name_of(index), mask)


def open_pairs(root: Path) -> Readers:
    """Return a function that reads each split of a folder with images and masks; empty if there are no masks."""
    if all((root / name).is_dir() for name in VOC_FOLDERS):
        return _open_voc(root)
    images = root / "images"
    masks = next((root / name for name in MASK_FOLDERS if (root / name).is_dir()), None)
    if masks is None or not images.is_dir():
        return {}
    splits = split_folders(images) or {"": images}
    return {name: partial(_read, root, folder, masks, images) for name, folder in splits.items()}


def _read(root: Path, folder: Path, masks: Path, images: Path) -> PairRecords:
    files = image_files(folder)
    beside = masks / folder.relative_to(images)
    ids = {path.relative_to(beside).with_suffix(""): path for path in image_files(beside)} if beside.is_dir() else {}
    stems = [path.relative_to(folder).with_suffix("") for path in files]
    for path, stem in zip(files, stems, strict=True):
        if stem not in ids:
            raise DataError(f"the image {str(path)!r} has no mask {str(beside / stem)!r}")
    if left := sorted(set(ids) - set(stems)):
        raise DataError(f"the mask {str(ids[left[0]])!r} has no image in {str(folder)!r}")
    names, from_one = _classes(root), _is_ade(root)
    n_classes = ADE_CLASSES if from_one else len(names) if names else None
    return PairRecords(root, files, tuple(ids[stem] for stem in stems), names, n_classes, from_one)


def _is_ade(root: Path) -> bool:
    """Return whether a folder is ADE20k, whose class ids start at 1."""
    return (root / ADE_NAMES).is_file() or root.name.startswith("ADEChallengeData")


def _classes(root: Path) -> tuple[str, ...] | None:
    """Return the class names from `classes.txt` or ADE20k's list, or None."""
    listed = root / "classes.txt"
    if listed.is_file():
        return tuple(line.strip() for line in listed.read_text(errors="replace").splitlines() if line.strip())
    if (root / ADE_NAMES).is_file():
        lines = (root / ADE_NAMES).read_text(errors="replace").splitlines()
        rows = [line.split("\t") for line in lines[1:] if line.strip()]
        return tuple(row[-1].split(",")[0].strip() for row in rows)
    return None


def _open_voc(root: Path) -> Readers:
    pictures, masks, lists = (root / name for name in VOC_FOLDERS)

    def read(listed: Path) -> PairRecords:
        names = listed.read_text(errors="replace").split()
        for name in names:
            if name != PurePath(name).name:
                raise DataError(f"{str(listed)!r} lists {name[:200]!r}, which is not a plain image name")
        found = (tuple(pictures / f"{name}.jpg" for name in names), tuple(masks / f"{name}.png" for name in names))
        for path in (*found[0], *found[1]):
            if not os.path.isfile(path):
                raise DataError(f"{str(listed)!r} lists {path.stem!r}, but {str(path)!r} does not exist")
        return PairRecords(root, *found, VOC_CLASSES, len(VOC_CLASSES))

    return {
        split: partial(read, lists / f"{name}.txt")
        for split, name in (("train", "train"), ("validation", "val"), ("test", "test"))
        if (lists / f"{name}.txt").is_file()
    }
