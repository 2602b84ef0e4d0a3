"""Images in memory: exactly the batches of the set itself, decoded once."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image

import raptor
from raptor.core.preprocessing import Preprocessing
from raptor.data import image_cache
from raptor.data.image_cache import InMemoryImages, in_memory

USED = Preprocessing((16, 12), (20, 18), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.1))


@pytest.fixture
def folder(tmp_path):
    """Write ten images of several sizes and of two classes."""
    rng = np.random.default_rng(0)
    for index in range(10):
        path = tmp_path / f"class{index % 2}" / f"{index}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20 + index, 30 - index, 3), dtype=np.uint8)).save(path)
    return tmp_path


def load(folder):
    return raptor.load_images(folder, USED, batch_size=4, workers=0)


def assert_same(found, expected):
    assert torch.equal(found.pixels, expected.pixels)
    assert found.pixels.is_contiguous()
    assert torch.equal(found.label, expected.label)
    assert found.path == expected.path
    assert not found.spare


def test_batches_are_those_of_the_set_itself(folder, monkeypatch):
    images, plain, decoded = in_memory(load(folder)), load(folder), []
    assert isinstance(images, InMemoryImages)
    monkeypatch.setattr(image_cache, "decode", lambda image: decoded.append(image) or raptor.data.decode.decode(image))
    assert_same(next(images.shuffled(0, 3, 1)), next(plain.shuffled(0, 3, 1)))
    assert len(decoded) == 3
    for _ in range(2):
        for pair in zip(images, plain, strict=True):
            assert_same(*pair)
        for pair in zip(islice(images.shuffled(3, 7, 5), 4), islice(plain.shuffled(3, 7, 5), 4), strict=True):
            assert_same(*pair)
    assert len(decoded) == 10
    assert images.identity() == plain.identity()
    for one, other in zip(images.fit_eval_split(), plain.fit_eval_split(), strict=True):
        for pair in zip(one, other, strict=True):
            assert_same(*pair)


def test_damaged_images_are_counted_as_before(folder):
    (folder / "class0" / "0.png").write_bytes(b"no image")
    images = in_memory(raptor.load_images(folder, USED, workers=0, allow_damaged=True))
    for _ in range(2):
        assert [len(batch) for batch in images] == [9]
    assert len(images.damaged) == 1
    assert len(next(images.shuffled(0, 10, 0))) == 9


def test_large_and_drawn_sets_are_left_alone(folder, monkeypatch):
    scenes = raptor.load_images("scenes", Preprocessing((32, 32), None), images=4)
    assert in_memory(scenes) is scenes
    monkeypatch.setattr(image_cache, "MOST_BYTES", 10 * 3 * 16 * 12 - 1)
    images = load(folder)
    assert in_memory(images) is images
