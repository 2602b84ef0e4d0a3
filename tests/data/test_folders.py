"""Folders of images: flat, by class, by split; what is held out; what names no data."""

from __future__ import annotations

from pathlib import Path

import pytest

import raptor
from pictures import PLAIN, labels, levels, picture
from raptor.data.splits import hold_out
from raptor.errors import DataError, OptionError


@pytest.fixture
def classes(tmp_path):
    for label, name in enumerate(["ant", "bee", "cat"]):
        (tmp_path / name / "deeper").mkdir(parents=True)
        picture(label * 10).save(tmp_path / name / "one.png")
        picture(label * 10 + 1).save(tmp_path / name / "deeper" / "two.JPG", "png")
    return tmp_path


@pytest.fixture
def parted_flat(tmp_path):
    """Classes to train on, and a test split without any, in which a sub-folder lies too."""
    for name in ("train/a/x.png", "train/b/x.png", "test/x.png", "test/more/x.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        picture(10).save(tmp_path / name)
    return tmp_path


def test_a_flat_folder(flat):
    images = raptor.load_images(flat, PLAIN, batch_size=4)
    assert levels(images) == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    batches = list(images)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert batches[0].label is None
    assert batches[0].mask is None
    assert batches[0].depth is None
    assert batches[0].path == ["0.png", "1.png", "2.png", "3.png"]
    assert images.classes is None


def test_class_folders(classes):
    images = raptor.load_images(str(classes), PLAIN)
    assert images.classes == ("ant", "bee", "cat")
    assert labels(images) == [0, 0, 1, 1, 2, 2]
    assert levels(images) == [0, 1, 10, 11, 20, 21]


def test_split_folders(tmp_path):
    for name, value in (("train", 10), ("val", 20), ("test", 30)):
        (tmp_path / name / "thing").mkdir(parents=True)
        picture(value).save(tmp_path / name / "thing" / "a.png")
    assert levels(raptor.load_images(f"{tmp_path}:train", PLAIN)) == [10]
    assert levels(raptor.load_images(f"{tmp_path}:validation", PLAIN)) == [20]
    assert levels(raptor.load_images(tmp_path, PLAIN, split="test")) == [30]
    assert levels(raptor.load_images(tmp_path, PLAIN)) == [20]
    with pytest.raises(DataError, match="no split 'other'; it has"):
        raptor.load_images(f"{tmp_path}:other", PLAIN)


@pytest.fixture
def parted(tmp_path):
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            picture(10 if split == "train" else 20).save(tmp_path / split / name / "a.png")
    return tmp_path


def test_a_class_has_one_number_in_all_splits(tmp_path):
    """Also where a split has no image of some class: numbers given split by split would be others."""
    for split, names in (("train", "abc"), ("test", "ac")):
        for name in names:
            (tmp_path / split / name).mkdir(parents=True)
            picture(10).save(tmp_path / split / name / "x.png")
    (tmp_path / "train" / "empty").mkdir()
    for split, wanted in (("train", [0, 1, 2]), ("test", [0, 2])):
        images = raptor.load_images(tmp_path, PLAIN, split=split)
        assert images.classes == ("a", "b", "c")
        assert labels(images) == wanted


def test_a_flat_split_beside_names_no_classes(parted_flat):
    assert raptor.load_images(parted_flat, PLAIN, split="train").classes == ("a", "b")
    assert raptor.load_images(parted_flat, PLAIN, split="test").classes is None


def test_a_split_beside_that_cannot_be_listed_is_one_error(parted_flat, monkeypatch):
    """Root may list everything, so the system's answer is given in its place."""
    iterdir = Path.iterdir

    def closed(path):
        if path.name == "test":
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(DataError, match=r"test' cannot be read: Permission denied"):
        raptor.load_images(parted_flat, PLAIN, split="train")


def test_hidden_and_empty_folders_beside_splits_change_nothing(parted):
    (parted / ".git").mkdir()
    (parted / "annotations").mkdir()
    assert levels(raptor.load_images(f"{parted}:train", PLAIN)) == [10, 10]
    assert raptor.load_images(f"{parted}:test", PLAIN).classes == ("cat", "dog")


def test_splits_are_never_mixed_with_what_lies_beside_them(parted):
    (parted / "more").mkdir()
    picture(30).save(parted / "more" / "a.png")
    with pytest.raises(DataError, match=r"test, train, more\) are neither classes nor one folder per split"):
        raptor.load_images(parted, PLAIN)


def test_two_folders_for_one_split_are_refused(parted):
    for name in ("val", "valid"):
        (parted / name).mkdir()
        picture(30).save(parted / name / "a.png")
    with pytest.raises(DataError, match="neither classes nor"):
        raptor.load_images(parted, PLAIN)


def test_train_among_other_vehicles_is_a_class(tmp_path):
    for name in ("bus", "train", "car"):
        (tmp_path / name).mkdir()
        picture(10).save(tmp_path / name / "a.png")
    assert raptor.load_images(tmp_path, PLAIN).classes == ("bus", "car", "train")


def test_links_that_lead_back_up_are_followed_once(flat):
    (flat / "deeper").mkdir()
    (flat / "deeper" / "up").symlink_to(flat)
    assert len(raptor.load_images(flat, PLAIN)) == 10


@pytest.mark.parametrize("source", ["", "photos:", ":train", "imagefolder", "csv", "parquet", "a b", "x" * 5000, "\0"])
def test_what_names_no_data(source, flat, monkeypatch):
    monkeypatch.chdir(flat)
    with pytest.raises(DataError):
        raptor.load_images(source, PLAIN)


def test_a_split_that_is_named_twice_must_be_the_same(parted):
    assert levels(raptor.load_images(f"{parted}:train", PLAIN, split="train")) == [10, 10]
    with pytest.raises(OptionError, match="names the split 'train'"):
        raptor.load_images(f"{parted}:train", PLAIN, split="test")


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"workers": -1}])
def test_impossible_loading_is_refused(flat, options):
    with pytest.raises(OptionError, match="at least 1, and workers"):
        raptor.load_images(flat, PLAIN, **options)


def test_a_set_without_splits_is_parted_once_and_for_all(flat):
    train, test = raptor.load_images(f"{flat}:train", PLAIN), raptor.load_images(f"{flat}:test", PLAIN)
    assert sorted(levels(train) + levels(test)) == list(range(0, 100, 10))
    assert len(test) == 2
    assert levels(raptor.load_images(f"{flat}:test", PLAIN, seed=7)) == levels(test)
    assert set(hold_out(1000, "train", "x")).isdisjoint(hold_out(1000, "val", "x"))
    with pytest.raises(DataError, match="use train or test"):
        raptor.load_images(f"{flat}:other", PLAIN)


def test_a_number_of_images_is_drawn_by_seed_from_the_whole_set(flat):
    def drawn(seed):
        return levels(raptor.load_images(flat, PLAIN, images=4, seed=seed))

    assert drawn(0) == drawn(0)
    assert len({tuple(drawn(seed)) for seed in range(20)}) > 10
    assert {level for seed in range(50) for level in drawn(seed)} == set(range(0, 100, 10))
    assert len(raptor.load_images(flat, PLAIN, images=99)) == 10
    with pytest.raises(OptionError):
        raptor.load_images(flat, PLAIN, images=0)


def test_images_that_are_split_off_are_not_in_the_rest(flat):
    images = raptor.load_images(flat, PLAIN, batch_size=3)
    rest, off = images.split_off(4)
    assert (len(rest), len(off)) == (6, 4)
    assert rest.image_keys() | off.image_keys() == images.image_keys()
    assert not rest.image_keys() & off.image_keys()
    assert not set(levels(rest)) & set(levels(off))
    assert off.image_keys() == images.split_off(4)[1].image_keys()
