"""Tar shards and streamed tables: the images of a folder, in any order, and a position that is a step."""

from __future__ import annotations

import gc
import itertools
import os
import tarfile
from collections import Counter

import datasets
import pytest
import torch

import raptor
from raptor.data.order import blockwise
from raptor.data.streaming.images import StreamedImages
from raptor.data.streaming.tables import stream_dataset
from raptor.errors import DataError, OptionError
from raptor.models.vit import ViT, ViTConfig
from shards import SIDE, N, as_tars, by_content, noise

PLAIN = raptor.Preprocessing(crop=(SIDE, SIDE), resize=None)


def load(data, kind, **options):
    return raptor.load_images(data[kind], options.pop("teacher", PLAIN), **options, **STREAM[kind])


STREAM = {"folder": {}, "tar": {}, "parquet": {"stream": 16}}


@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_images_and_labels(data, workers):
    wanted = by_content(load(data, "folder"))
    assert len(wanted) == N
    for kind in ("tar", "parquet"):
        images = load(data, kind, workers=workers, batch_size=7)
        assert isinstance(images, StreamedImages)
        assert (len(images), images.classes) == (N, ("0", "1", "2"))
        assert by_content(images) == wanted


def test_similarity_is_that_of_the_folder(data):
    torch.manual_seed(0)
    teacher = raptor.load_model(ViT(ViTConfig(image_size=SIDE, patch_size=8, depth=4, width=16, heads=2)))
    found = {kind: raptor.layer_similarity(teacher, load(data, kind, teacher=teacher)) for kind in data}
    for kind in ("tar", "parquet"):
        for group in found["folder"].groups:
            assert abs(found[kind].matrix(group) - found["folder"].matrix(group)).max() < 1e-6


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # webdataset leaves its last shard open
def test_the_order_of_webdataset_is_read_as_webdataset_reads_it(data):
    webdataset = pytest.importorskip("webdataset")
    files = sorted(str(path) for path in data["tar"].iterdir())
    theirs = [(sample["png"], int(sample["cls"])) for sample in webdataset.WebDataset(files, shardshuffle=False)]
    gc.collect()
    records = load(data, "tar").records
    assert [(records[i].image, records[i].label) for i in range(N)] == theirs


def test_streaming_writes_nothing(data, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    before = {path: path.stat().st_mtime_ns for path in data["parquet"].rglob("*")}
    assert len(by_content(load(data, "parquet", workers=0))) == N
    assert list(cache.rglob("*")) == []
    assert {path: path.stat().st_mtime_ns for path in data["parquet"].rglob("*")} == before


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_training_starts_at_any_step(data, kind):
    images = load(data, kind, workers=0)
    straight = list(itertools.islice(images.shuffled(0, 8, seed=3), 12))
    for first in (1, 5, 9):
        again = list(itertools.islice(images.shuffled(first, 8, seed=3), 12 - first))
        for one, other in zip(straight[first:], again, strict=True):
            assert torch.equal(one.pixels, other.pixels)
    other = next(iter(images.shuffled(0, 8, seed=4)))
    assert not torch.equal(straight[0].pixels, other.pixels)


@pytest.mark.parametrize(("n", "processes"), [(1, 1), (2, 2), (7, 2), (7, 8)])
def test_every_image_comes_once_in_an_epoch_and_processes_share_nothing(n, processes):
    groups, start = [], 0
    for size in [5, 9, 4, 7, 6, 8, 5][:n]:
        groups.append(list(range(start, start + size)))
        start += size
    seen = []
    for process in range(processes):
        order = blockwise(groups, 0, 8 * processes, 0, (process, processes), 6)
        batches = [next(order) for _ in range(200)]
        assert all(len(batch) == 8 for batch in batches)
        seen.append(Counter(itertools.chain(*batches)))
    assert set().union(*seen) == set(range(start))
    for one, other in itertools.combinations(seen, 2):
        assert not set(one) & set(other)


def test_an_epoch_of_one_reader_is_a_permutation_within_blocks():
    groups = [list(range(10)), list(range(10, 20)), list(range(20, 30))]
    order = list(itertools.islice(blockwise(groups, 0, 1, 0, (0, 1), 10), 90))
    order = [index for batch in order for index in batch]
    readers = [order[reader::3] for reader in range(3)]
    for reader, sequence in enumerate(readers):
        for epoch in range(3):
            assert sorted(sequence[10 * epoch : 10 * (epoch + 1)]) == groups[reader]
        assert sequence[:10] != sequence[10:20]


def test_parts_keep_the_order_of_shards(data):
    images = load(data, "parquet", workers=0)
    rest, off = images.split_off(10)
    first, second = images.fit_eval_split()
    for one, other, sizes in ((rest, off, (50, 10)), (first, second, (30, 30))):
        assert (len(one), len(other)) == sizes
        assert by_content(one) | by_content(other) == by_content(images)
        assert list(one.records.indices) == sorted(one.records.indices)
    trained = itertools.islice(rest.shuffled(0, 10, seed=0), 20)
    assert not by_content(off).keys() & by_content(trained).keys()


def test_splits_by_name(tmp_path):
    as_tars(tmp_path, 6, shards=2, name="train")
    as_tars(tmp_path, 4, shards=1, name="val")
    assert [len(raptor.load_images(f"{tmp_path}:{split}", PLAIN)) for split in ("train", "val")] == [6, 4]
    assert len(raptor.load_images(f"{tmp_path}/train-*.tar", PLAIN)) == 6


def test_a_dataset_on_the_hub_is_its_parquet_files(data, tmp_path):
    """The builder of `datasets` names the files of a local folder as it does those of a repository."""
    (tmp_path / "data").mkdir()
    for number, file in enumerate(sorted(data["parquet"].iterdir())):
        split = "train" if number else "test"
        os.link(file, tmp_path / "data" / f"{split}-{number:05d}.parquet")
    splits = stream_dataset(str(tmp_path))
    assert {split: len(files) for split, files in splits.items()} == {"train": 3, "test": 1}
    assert all(os.path.isfile(file) for files in splits.values() for file in files)


def test_a_damaged_image_in_a_shard_is_skipped_and_named(tmp_path):
    as_tars(tmp_path, 200, shards=2, content=lambda number: b"no image" if number == 11 else noise(number))
    images = raptor.load_images(tmp_path, PLAIN, workers=0)
    assert sum(map(len, images)) == 199
    assert [damaged["path"].split("@")[0] for damaged in images.damaged] == ["part-001.tar"]


def test_bad_input_is_one_line(data, tmp_path, call):
    (tmp_path / "broken.tar").write_bytes(b"nonsense" * 200)
    with tarfile.open(tmp_path / "packed.tar", "w:gz") as archive:
        archive.add(__file__, "x.jpg")
    with tarfile.open(tmp_path / "empty.tar", "w") as archive:
        archive.add(__file__, "text.txt")
    (tmp_path / "broken.parquet").write_bytes(b"nonsense")
    for name, options, text in (
        ("broken.tar", {}, "not a readable tar file"),
        ("packed.tar", {}, "not compressed"),
        ("empty.tar", {}, "need a file such as KEY.jpg"),
        ("broken.parquet", {"stream": 5}, "cannot be streamed"),
    ):
        with pytest.raises(DataError, match=text) as caught:
            raptor.load_images(tmp_path / name, PLAIN, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match=r"--stream is for parquet files, dataset ids and tar shards"):
        raptor.load_images(data["folder"], PLAIN, stream=10)
    with pytest.raises(OptionError, match="must be at least 1"):
        raptor.load_images(data["tar"], PLAIN, stream=0)
    with pytest.raises(OptionError, match="scenes are drawn when they are needed"):
        raptor.load_images("scenes", PLAIN, stream=10)
    with pytest.raises(DataError, match="no dataset with this id can be streamed"):
        raptor.load_images("nobody/nothing", PLAIN, stream=10)
    for source, arguments, text in (
        (data["tar"], ("--stream", "0"), "--stream"),
        (data["tar"], ("--stream", "many"), "--stream"),
        (data["folder"], ("--stream", "10"), "--stream is for parquet files"),
        ("scenes", ("--stream", "10"), "scenes are drawn"),
        ("scenes", ("--cache-images", tmp_path / "cache"), "scenes are drawn"),
        (data["tar"], ("--cache-images", tmp_path / "broken.tar"), "broken.tar"),
        (tmp_path / "packed.tar", (), "not compressed"),
    ):
        code, out, err = call("phases", "scenes", "--data", source, *arguments)
        assert (code, out, err.count("\n"), text in err) == (2, "", 1, True), err
