"""Images from every place that people keep them in, and what is wrong with some."""

from __future__ import annotations

import io
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet
import pytest
import torch
from PIL import Image

import raptor
from raptor.data.decode import DamagedImage, decode
from raptor.data.splits import hold_out
from raptor.errors import DamagedDataError, DataError, OptionError
from raptor.preprocessing import Preprocessing

PLAIN = Preprocessing(crop=(8, 8), resize=None, mean=(0, 0, 0), std=(1, 1, 1))


def picture(value: int, mode: str = "RGB") -> Image.Image:
    """A flat picture: its grey level says which it is."""
    return Image.new("RGB", (8, 8), (value, value, value)).convert(mode)


def encoded(value: int) -> bytes:
    buffer = io.BytesIO()
    picture(value).save(buffer, "png")
    return buffer.getvalue()


def levels(images) -> list[int]:
    """Which pictures came, by their grey levels."""
    return [round(pixels.mean().item() * 255) for batch in images for pixels in batch.pixels]


def labels(images) -> list[int]:
    return [label for batch in images for label in batch.label.tolist()]


@pytest.fixture
def flat(tmp_path):
    for value in range(10):
        picture(value * 10).save(tmp_path / f"{value}.png")
    (tmp_path / "notes.txt").write_text("not an image, and not named as one")
    (tmp_path / ".hidden.png").write_bytes(b"nor this")
    return tmp_path


@pytest.fixture
def classes(tmp_path):
    for label, name in enumerate(["ant", "bee", "cat"]):
        (tmp_path / name / "deeper").mkdir(parents=True)
        picture(label * 10).save(tmp_path / name / "one.png")
        picture(label * 10 + 1).save(tmp_path / name / "deeper" / "two.JPG", "png")
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


def test_hidden_and_empty_folders_beside_splits_change_nothing(parted):
    (parted / ".git").mkdir()
    (parted / "annotations").mkdir()
    assert levels(raptor.load_images(f"{parted}:train", PLAIN)) == [10, 10]
    assert raptor.load_images(f"{parted}:test", PLAIN).classes == ("cat", "dog")


def test_splits_are_never_mixed_with_what_lies_beside_them(parted):
    (parted / "more").mkdir()
    picture(30).save(parted / "more" / "a.png")
    with pytest.raises(DataError, match=r"test, train, more\) are neither classes nor one folder for each split"):
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
    with pytest.raises(OptionError, match="at least 1 image"):
        raptor.load_images(flat, PLAIN, **options)


def test_a_set_without_splits_is_parted_once_and_for_all(flat):
    train, test = raptor.load_images(f"{flat}:train", PLAIN), raptor.load_images(f"{flat}:test", PLAIN)
    assert sorted(levels(train) + levels(test)) == list(range(0, 100, 10))
    assert len(test) == 2
    assert levels(raptor.load_images(f"{flat}:test", PLAIN, seed=7)) == levels(test)
    assert set(hold_out(1000, "train", "x")).isdisjoint(hold_out(1000, "val", "x"))
    with pytest.raises(DataError, match="ask for train or test"):
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


def table(**columns) -> datasets.Dataset:
    n = len(next(iter(columns.values())))
    return datasets.Dataset.from_dict(
        {"image": [{"bytes": encoded(10 * i), "path": None} for i in range(n)], **columns}
    )


def test_parquet_with_class_names(tmp_path):
    names = datasets.ClassLabel(names=["ant", "bee"])
    rows = table(fine_label=[1, 0, 1]).cast_column("fine_label", names).rename_column("image", "img")
    rows.cast_column("img", datasets.Image()).to_parquet(tmp_path / "some.parquet")
    images = raptor.load_images(tmp_path / "some.parquet", PLAIN)
    assert levels(images) == [0, 10, 20]
    assert labels(images) == [1, 0, 1]
    assert images.classes == ("ant", "bee")


def test_parquet_with_plain_columns(tmp_path):
    table(label=["dog", "cat"]).to_parquet(tmp_path / "text.parquet")
    images = raptor.load_images(tmp_path / "text.parquet", PLAIN)
    assert (images.classes, labels(images)) == (("cat", "dog"), [1, 0])
    raw = datasets.Dataset.from_dict({"picture_bytes": [encoded(50)], "number": [2]})
    raw.to_parquet(tmp_path / "raw.parquet")
    images = raptor.load_images(tmp_path / "raw.parquet", PLAIN, label_column="number")
    assert (levels(images), labels(images), images.classes) == ([50], [2], ("0", "1", "2"))


def test_folder_of_parquet_files_with_splits(tmp_path):
    table(label=[0, 0]).to_parquet(tmp_path / "train-00000-of-00002.parquet")
    table(label=[1]).to_parquet(tmp_path / "train-00001-of-00002.parquet")
    table(label=[2]).to_parquet(tmp_path / "test.parquet")
    assert labels(raptor.load_images(f"{tmp_path}:train", PLAIN)) == [0, 0, 1]
    assert labels(raptor.load_images(tmp_path, PLAIN)) == [2]


def test_parquet_files_by_pattern_and_with_underscores(tmp_path):
    table(label=[0, 0]).to_parquet(tmp_path / "train_0.parquet")
    table(label=[1]).to_parquet(tmp_path / "train_1.parquet")
    table(label=[2]).to_parquet(tmp_path / "test_0.parquet")
    assert labels(raptor.load_images(f"{tmp_path}:train", PLAIN)) == [0, 0, 1]
    assert labels(raptor.load_images(f"{tmp_path}/train_*.parquet", PLAIN)) == [0, 0, 1]
    table(label=[3]).to_parquet(tmp_path / "extra.parquet")
    with pytest.raises(DataError, match=r"'extra\.parquet' is not; name the files"):
        raptor.load_images(tmp_path, PLAIN)


@pytest.mark.parametrize("values", [[0.5, 1.5], [[0], [1, 2]], [-1, 0], [None, 1], ["a", None]], ids=str)
def test_a_guessed_column_without_classes_is_no_label(tmp_path, values):
    table(label=values).to_parquet(tmp_path / "odd.parquet")
    images = raptor.load_images(tmp_path / "odd.parquet", PLAIN)
    assert images.classes is None
    assert levels(images) == [0, 10]
    with pytest.raises(DataError, match="label column 'label'"):
        raptor.load_images(tmp_path / "odd.parquet", PLAIN, label_column="label")


def test_cifar100_as_the_hub_lays_it_out():
    folder = Path(__file__).parents[2] / "shared/data/cifar100"
    if not (folder / "test.parquet").exists():
        pytest.skip("CIFAR-100 is not beside the project")
    images = raptor.load_images(f"{folder}:test", PLAIN, images=16)
    batch = next(iter(images))
    rows = pyarrow.parquet.read_table(folder / "test.parquet").to_pylist()
    assert batch.path == [f"{folder}[{index}]" for index in images.records.indices]
    for pixels, label, index in zip(batch.pixels, batch.label, images.records.indices, strict=True):
        assert label == rows[index]["fine_label"]
        assert torch.equal(pixels, PLAIN(Image.open(io.BytesIO(rows[index]["img"]["bytes"])).convert("RGB")))
    assert len(images.classes) == 100


def test_columns_that_are_not_there(tmp_path):
    datasets.Dataset.from_dict({"text": ["a"], "number": [1]}).to_parquet(tmp_path / "no.parquet")
    with pytest.raises(DataError, match=r"no image column; its columns are text, number.*--image-column"):
        raptor.load_images(tmp_path / "no.parquet", PLAIN)
    with pytest.raises(DataError, match="no image column 'x'; the columns are text, number"):
        raptor.load_images(tmp_path / "no.parquet", PLAIN, image_column="x")
    with pytest.raises(DataError, match=r"holds Value.*not images"):
        raptor.load_images(tmp_path / "no.parquet", PLAIN, image_column="text")


def test_what_is_no_data_at_all(tmp_path):
    with pytest.raises(DataError, match="holds no images"):
        raptor.load_images(tmp_path, PLAIN)
    with pytest.raises(DataError, match="there is no folder or parquet file"):
        raptor.load_images(tmp_path / "nowhere", PLAIN)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="not a readable parquet file"):
        raptor.load_images(tmp_path / "a.parquet", PLAIN)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match="neither a folder of images nor parquet"):
        raptor.load_images(tmp_path / "a.txt", PLAIN)
    with pytest.raises(DataError, match=r"'some/dataset'.*network"):
        raptor.load_images("some/dataset", PLAIN)


def test_one_damaged_image_among_many_is_skipped_counted_and_listed(tmp_path):
    for value in range(200):
        picture(value).save(tmp_path / f"{value:03}.png")
    (tmp_path / "007.png").write_bytes(encoded(7)[:40])
    images = raptor.load_images(tmp_path, PLAIN, workers=2)
    assert levels(images) == [value for value in range(200) if value != 7]
    assert [damage["path"] for damage in images.damaged] == ["007.png"]
    assert levels(images) == [value for value in range(200) if value != 7]
    assert len(images.damaged) == 1


def test_too_many_damaged_images_are_an_error_unless_allowed(flat):
    (flat / "3.png").write_text("a text file named .png")
    with pytest.raises(DamagedDataError, match=r"1 of 10 images.*3\.png \(not an image\).*--allow-damaged"):
        list(raptor.load_images(flat, PLAIN))
    assert len(levels(raptor.load_images(flat, PLAIN, allow_damaged=True))) == 9


def test_only_damaged_images_are_an_error_even_if_allowed(tmp_path):
    (tmp_path / "a.jpg").write_text("text")
    with pytest.raises(DataError, match=r"none of the 1 images can be read; the first: a\.jpg"):
        list(raptor.load_images(tmp_path, PLAIN, allow_damaged=True))


def test_workers_change_nothing(tmp_path):
    for value in range(30):
        picture(value).save(tmp_path / f"{value:02}.png")
    alone = list(raptor.load_images(tmp_path, PLAIN, workers=0, batch_size=7))
    helped = list(raptor.load_images(tmp_path, PLAIN, workers=2, batch_size=7))
    assert [batch.path for batch in alone] == [batch.path for batch in helped]
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(alone, helped, strict=True))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    picture(255, mode).save(path)
    decoded = np.asarray(decode(path))
    assert decoded.shape == (8, 8, 3)
    assert decoded.min() >= 254


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    Image.fromarray(np.full((8, 8), 32896, dtype=np.uint16)).save(tmp_path / "a.png")
    assert np.asarray(decode(tmp_path / "a.png")).flatten().tolist() == [128] * 192


def test_exif_orientation_is_applied(tmp_path):
    image = Image.new("RGB", (8, 4))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif)
    assert decode(tmp_path / "a.jpg").size == (4, 8)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0" + bytes(50)])
def test_damage_has_a_reason(content):
    with pytest.raises(DamagedImage, match=r"."):
        decode(content)


def test_decompression_bombs_are_refused(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(DamagedImage, match="DecompressionBomb"):
        decode(encoded(1))
