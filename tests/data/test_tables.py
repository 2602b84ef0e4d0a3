"""Parquet files and data set ids: which column is what, and what is no data at all."""

from __future__ import annotations

import io

import datasets
import pyarrow.parquet
import pytest
import torch
from PIL import Image

import raptor
from pictures import PLAIN, REAL, encoded, labels, levels
from raptor.errors import DataError


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
    with pytest.raises(DataError, match=r"'extra\.parquet' is not; select files"):
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
    folder = REAL / "cifar100"
    if not (folder / "test.parquet").exists():
        pytest.skip("CIFAR-100 is not at hand")
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
    with pytest.raises(DataError, match="no image column 'x' exists; the columns are text, number"):
        raptor.load_images(tmp_path / "no.parquet", PLAIN, image_column="x")
    with pytest.raises(DataError, match=r"has values of Value.*not images"):
        raptor.load_images(tmp_path / "no.parquet", PLAIN, image_column="text")


def test_what_is_no_data_at_all(tmp_path):
    with pytest.raises(DataError, match="has no images"):
        raptor.load_images(tmp_path, PLAIN)
    with pytest.raises(DataError, match="no folder, parquet file or dataset"):
        raptor.load_images(tmp_path / "nowhere", PLAIN)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="not a readable parquet file"):
        raptor.load_images(tmp_path / "a.parquet", PLAIN)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match="neither a folder of images, nor parquet files, nor tar shards"):
        raptor.load_images(tmp_path / "a.txt", PLAIN)
    with pytest.raises(DataError, match=r"'some/dataset'.*network"):
        raptor.load_images("some/dataset", PLAIN)
