"""Masks and depths: in the formats that people have, on the pixels that the model gets, and what is wrong with some."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

import raptor
from pictures import REAL, save
from raptor.core.preprocessing import Preprocessing
from raptor.data.annotations import UNLABELLED, read_mask
from raptor.data.records import Mask
from raptor.errors import DataError

h5py = pytest.importorskip("h5py")

PLAIN = Preprocessing(crop=(6, 8), resize=None, mean=(0, 0, 0), std=(1, 1, 1))
SIZE = (6, 8)


def coloured(ids: np.ndarray) -> np.ndarray:
    """A picture whose red channel is ten times the class of each pixel."""
    return np.stack([10 * ids, ids * 0, ids * 0], axis=-1).astype(np.uint8)


def ids_of(seed: int, n: int = 4, size=SIZE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n, size).astype(np.uint8)


def together(source, **options):
    """Load a set, and return its pixels' red as class ids beside the masks."""
    batches = list(raptor.load_images(source, PLAIN, **options))
    red = torch.cat([batch.pixels[:, 0] for batch in batches]) * 255 / 10
    return red.round().long(), torch.cat([batch.mask for batch in batches])


@pytest.fixture
def pairs(tmp_path):
    """What CamVid looks like: images and annotations, both with folders for splits, and names of classes."""
    for split, first in (("train", 0), ("val", 10)):
        for seed in range(first, first + 3):
            save(coloured(ids_of(seed)), tmp_path / "images" / split / f"{seed}.png")
            save(ids_of(seed), tmp_path / "annotations" / split / f"{seed}.png")
    (tmp_path / "classes.txt").write_text("sky\nroad\ntree\ncar\n")
    return tmp_path


def test_a_pair_of_folders(pairs):
    for split in ("train", "val"):
        seen, mask = together(pairs, split=split)
        assert mask.shape == (3, *SIZE)
        assert torch.equal(seen, mask)
    images = raptor.load_images(f"{pairs}:train", PLAIN)
    assert images.mask_classes == ("sky", "road", "tree", "car")
    assert next(iter(images)).path == ["images/train/0.png", "images/train/1.png", "images/train/2.png"]


def test_a_pair_of_folders_without_splits_is_parted_as_any_other_set(tmp_path):
    for seed in range(5):
        save(coloured(ids_of(seed)), tmp_path / "images" / "deep" / f"{seed}.png")
        save(ids_of(seed), tmp_path / "masks" / "deep" / f"{seed}.png")
    seen, mask = together(tmp_path, split="train")
    assert len(mask) == 4
    assert torch.equal(seen, mask)
    assert raptor.load_images(tmp_path, PLAIN).mask_classes is None


def test_ade20k_counts_from_one_and_zero_is_unlabelled(tmp_path):
    """Its own folders: images/training, annotations/training, objectInfo150.txt."""
    root = tmp_path / "ADEChallengeData2016"
    for split, seed in (("training", 0), ("validation", 1)):
        ids = ids_of(seed)
        save(coloured(ids), root / "images" / split / "ADE_0.png")
        save(ids, root / "annotations" / split / "ADE_0.png")
    rows = [f"{n}\t0.1\t1\t1\tclass {n}, other word" for n in range(1, 151)]
    (root / "objectInfo150.txt").write_text("\n".join(["Idx\tRatio\tTrain\tVal\tName", *rows]))
    seen, mask = together(root, split="validation")
    assert torch.equal(mask, torch.where(seen == 0, UNLABELLED, seen - 1))
    assert (mask == UNLABELLED).any()
    assert raptor.load_images(root, PLAIN).mask_classes[:2] == ("class 1", "class 2")
    save(np.full(SIZE, 151, dtype=np.uint8), root / "annotations" / "validation" / "ADE_0.png")
    with pytest.raises(DataError, match=r"ADE_0\.png' has the class id 151; ids must be from 1 to 150"):
        together(root, split="validation")


def test_pascal_voc(tmp_path):
    """Lists of names, jpg pictures, masks with a palette and 255 for the edges of things."""
    (tmp_path / "ImageSets" / "Segmentation").mkdir(parents=True)
    for split, seed in (("train", 0), ("val", 1)):
        ids = ids_of(seed, 21)
        ids[0] = UNLABELLED
        (tmp_path / "JPEGImages").mkdir(exist_ok=True)
        Image.fromarray(coloured(ids % 21)).save(tmp_path / "JPEGImages" / f"2007_{seed}.jpg")
        mask = Image.fromarray(ids).convert("P")
        mask.putdata(ids.ravel().tolist())
        mask.putpalette(list(np.random.default_rng(0).integers(0, 255, 768)))
        (tmp_path / "SegmentationClass").mkdir(exist_ok=True)
        mask.save(tmp_path / "SegmentationClass" / f"2007_{seed}.png")
        (tmp_path / "ImageSets" / "Segmentation" / f"{split}.txt").write_text(f"2007_{seed}\n")
    images = raptor.load_images(tmp_path, PLAIN, split="val")
    (batch,) = images
    wanted = ids_of(1, 21)
    wanted[0] = UNLABELLED
    assert torch.equal(batch.mask[0], torch.from_numpy(wanted).long())
    assert batch.path == ["JPEGImages/2007_1.jpg"]
    assert (len(images.mask_classes), images.mask_classes[15]) == (21, "person")
    (tmp_path / "SegmentationClass" / "2007_1.png").unlink()
    with pytest.raises(DataError, match=r"val\.txt' lists '2007_1', but .*2007_1\.png' does not exist"):
        raptor.load_images(tmp_path, PLAIN, split="val")


@pytest.fixture
def labelled(tmp_path):
    """The labelled .mat of NYU Depth v2: HDF5, columns first, with the splits in a file of their own."""
    draw = np.random.default_rng(0)
    pictures, depths = draw.integers(0, 255, (5, *SIZE, 3), dtype=np.uint8), draw.random((5, *SIZE), dtype=np.float32)
    with h5py.File(tmp_path / "nyu_depth_v2_labeled.mat", "w") as file:
        file["images"], file["depths"] = pictures.transpose(0, 3, 2, 1), depths.transpose(0, 2, 1)
    return tmp_path / "nyu_depth_v2_labeled.mat", pictures, depths


def check_depths(images, pictures, depths):
    batches = list(images)
    pixels, found = torch.cat([b.pixels for b in batches]), torch.cat([b.depth for b in batches])
    assert torch.equal((pixels * 255).round().byte(), torch.from_numpy(pictures).permute(0, 3, 1, 2))
    assert torch.equal(found, torch.from_numpy(depths))
    assert all(batch.mask is None for batch in batches)


def test_the_labelled_file_of_nyu(labelled):
    path, pictures, depths = labelled
    check_depths(raptor.load_images(path, PLAIN, batch_size=2), pictures, depths)
    savemat(path.parent / "splits.mat", {"trainNdxs": np.array([[1], [4]]), "testNdxs": np.array([[2], [3], [5]])})
    check_depths(raptor.load_images(path, PLAIN, split="train"), pictures[[0, 3]], depths[[0, 3]])
    check_depths(raptor.load_images(f"{path}:test", PLAIN, workers=2), pictures[[1, 2, 4]], depths[[1, 2, 4]])


def test_folders_of_h5_files(labelled):
    path, pictures, depths = labelled
    root = path.parent / "nyudepthv2"
    for index, split in enumerate(["train", "train", "val"]):
        (root / split / "kitchen").mkdir(parents=True, exist_ok=True)
        with h5py.File(root / split / "kitchen" / f"{index:05}.h5", "w") as file:
            file["rgb"], file["depth"] = pictures[index].transpose(2, 0, 1), depths[index]
    check_depths(raptor.load_images(root, PLAIN, split="train"), pictures[:2], depths[:2])
    check_depths(raptor.load_images(root, PLAIN, split="val"), pictures[2:3], depths[2:3])
    (root / "val" / "kitchen" / "00002.h5").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"00002\.h5' cannot be read as a file of NYU"):
        list(raptor.load_images(root, PLAIN, split="val"))


def test_annotations_go_where_their_pixels_go():
    """Resized and cropped alike, without a value that was not there; what lies outside the image is unlabelled."""
    ids = np.kron(ids_of(0, 4, (4, 4)), np.ones((10, 10))).astype(np.uint8)
    used = Preprocessing(crop=(24, 24), resize=(32, 32), resample=0, mean=(0, 0, 0), std=(1, 1, 1))
    seen = (used(Image.fromarray(coloured(ids)))[0] * 25.5).round().long()
    assert torch.equal(read_mask(Mask(ids), (40, 40), used, "x"), seen)
    small = Preprocessing(crop=(50, 50), resize=None)
    mask = read_mask(Mask(ids), (40, 40), small, "x")
    assert torch.equal(mask[5:45, 5:45], torch.from_numpy(ids).long())
    assert (mask[:5] == UNLABELLED).all()
    assert (mask[:, 45:] == UNLABELLED).all()


def test_mistakes_are_one_line_and_name_the_file(pairs):
    mask = pairs / "annotations" / "val" / "11.png"
    save(ids_of(0, 4, (5, 8)), mask)
    with pytest.raises(DataError, match=r"11\.png' is a mask of 5x8 pixels, but its image has 6x8") as caught:
        together(pairs, split="val", workers=2)
    assert "\n" not in str(caught.value)
    save(np.full(SIZE, 4, dtype=np.uint8), mask)
    with pytest.raises(DataError, match=r"11\.png' has the class id 4; ids must be from 0 to 3"):
        together(pairs, split="val")
    save(coloured(ids_of(0)), mask)
    with pytest.raises(DataError, match=r"11\.png' is an image of mode RGB"):
        together(pairs, split="val")
    mask.write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"11\.png' cannot be read"):
        together(pairs, split="val")
    mask.unlink()
    with pytest.raises(DataError, match=r"images/val/11\.png' has no mask"):
        raptor.load_images(pairs, PLAIN, split="val")
    save(ids_of(0), mask)
    (pairs / "images" / "val" / "11.png").unlink()
    with pytest.raises(DataError, match=r"annotations/val/11\.png' has no image"):
        raptor.load_images(pairs, PLAIN, split="val")


CAMVID = REAL / "camvid"


@pytest.mark.skipif(not CAMVID.is_dir(), reason="CamVid is not at hand")
def test_camvid():
    images = raptor.load_images(CAMVID, Preprocessing(crop=(64, 64), resize=(72, 72)), split="test", images=20)
    assert len(images.mask_classes) == 11
    masks = torch.cat([batch.mask for batch in images])
    assert set(masks.unique().tolist()) <= {*range(11), UNLABELLED}
    assert (masks == 3).float().mean() > 0.1  # the road
