"""Scenes as a data set, our ViT on disk, and accuracy by hand."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import raptor
from raptor.core.accuracy import top1
from raptor.core.batches import Batch
from raptor.core.preprocessing import Preprocessing
from raptor.data.scenes.draw import MEAN, STD, render
from raptor.errors import DataError, ImageSizeError, ModelNotFoundError, WeightsError
from raptor.models.checkpoints import load_vit, save_vit
from raptor.models.vit import ViT, ViTConfig

OWN = Preprocessing((64, 64), None, mean=MEAN, std=STD)
TINY = ViTConfig(depth=2, width=16, heads=2, n_register=1)


def test_a_part_trains_on_its_own_images():
    images = raptor.load_images("scenes:test", OWN, images=8, batch_size=4)
    first, second = images.fit_eval_split()
    sums = [{float(one.sum()) for batch in part for one in batch.pixels} for part in (first, second)]
    for part, own in zip((first, second), sums, strict=True):
        for batches in (part.shuffled(0, 4, 0), part.shuffled_epochs(0, 4, 0)):
            assert {float(one.sum()) for one in next(batches).pixels} == own
    rest, off = images.split_off(3)
    assert (rest, len(off)) == (images, 3)  # more are generated
    assert not rest.image_keys() & off.image_keys()


def test_batches_are_the_rendered_scenes():
    images = raptor.load_images("scenes:test", OWN, images=10, batch_size=4)
    batches = list(images)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    rendered = render(np.arange(10), "test")
    pixels = torch.cat([batch.pixels for batch in batches])
    expected = (torch.from_numpy(rendered.pixels).float() / 255 - MEAN[0]) / STD[0]
    torch.testing.assert_close(pixels, expected)
    assert torch.cat([batch.label for batch in batches]).tolist() == rendered.label.tolist()
    assert torch.equal(torch.cat([batch.mask for batch in batches]), torch.from_numpy(rendered.mask).long())
    assert torch.equal(torch.cat([batch.depth for batch in batches]), torch.from_numpy(rendered.depth))
    assert batches[1].path[0] == "scenes:test/4"


def test_another_size_keeps_classes_and_depths_where_they_are():
    """At twice the size, each pixel of mask and depth becomes four; a constant picture stays constant."""
    twice = Preprocessing((128, 128), None, mean=MEAN, std=STD)
    small = next(iter(raptor.load_images("scenes", OWN, images=3)))
    large = next(iter(raptor.load_images("scenes", twice, images=3)))
    assert torch.equal(large.mask[:, ::2, ::2], small.mask)
    assert torch.equal(large.depth[:, 1::2, 1::2], small.depth)
    torch.testing.assert_close(large.pixels.mean(dim=(2, 3)), small.pixels.mean(dim=(2, 3)), atol=0.01, rtol=0)


def test_splits_of_scenes():
    first = [
        next(iter(raptor.load_images(f"scenes:{split}", OWN, images=2))).pixels for split in ("train", "val", "test")
    ]
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(first, 2))
    with pytest.raises(DataError, match="no split 'other'; it has train, validation, test"):
        raptor.load_images("scenes:other", OWN)


def test_training_batches_are_a_function_of_the_step():
    images = raptor.load_images("scenes:train", OWN, images=10)
    stream = images.shuffled(0, batch_size=4, seed=0)
    taken = [next(stream).path for _ in range(5)]
    assert taken[2] == [f"scenes:train/{index}" for index in (8, 9, 0, 1)]
    assert next(images.shuffled(3, batch_size=4, seed=0)).path == taken[3]


def test_a_saved_vit_loads_as_the_same_function(tmp_path):
    torch.manual_seed(0)
    model = ViT(TINY).eval()
    save_vit(model, OWN, tmp_path / "run" / "model")
    teacher = raptor.load_model(tmp_path / "run")
    pixels = torch.randn(3, 3, 64, 64)
    with torch.no_grad():
        last = raptor.rollout(teacher, teacher.embed(pixels)).at(2)
        torch.testing.assert_close(teacher.head(last), model(pixels))
        torch.testing.assert_close(teacher.readout(last), model.readout(last))
    assert (teacher.preprocessing.mean, teacher.layout.counts) == (MEAN, {"cls": 1, "register": 1, "patch": 64})
    with pytest.raises(ImageSizeError, match="64x64"):
        raptor.load_model(tmp_path / "run", image_size=32)


def test_half_precision_halves_the_file_and_hardly_moves_the_logits(tmp_path):
    torch.manual_seed(0)
    model = ViT(TINY).eval()
    save_vit(model, OWN, tmp_path / "full")
    save_vit(model, OWN, tmp_path / "half", dtype=torch.float16)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    half, _ = load_vit(tmp_path / "half")
    pixels = torch.randn(3, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(half.eval()(pixels), model(pixels), atol=2e-3, rtol=0)


def test_a_damaged_vit_is_named(tmp_path):
    save_vit(ViT(TINY), OWN, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "width": 32}))
    with pytest.raises(WeightsError, match="'cls_token' has shape"):
        raptor.load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "raptor-vit", "width": "x"}))
    with pytest.raises(WeightsError, match="does not describe a ViT"):
        raptor.load_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelNotFoundError, match="weights file"):
        raptor.load_model(tmp_path)


class Oracle(raptor.toy.Rotation):
    """A flow whose head reads the class from the brightness of the image."""

    def embed(self, pixels):
        return pixels[:, 0, :1, :1].expand(-1, self.layout.n_tokens, self.width).clone()

    @staticmethod
    def head(tokens):
        return torch.nn.functional.one_hot(tokens[:, 0, 0].round().long() % 5, 5).float()


def test_accuracy_by_hand():
    values = torch.arange(20.0)
    label = values.long() % 5
    label[:3] = (label[:3] + 1) % 5
    flow = Oracle([0.0, 0.0])
    pixels = values[:, None, None, None].expand(-1, 3, 8, 8)
    batches = [Batch(pixels[s], label[s], None, None, [""] * len(label[s])) for s in (slice(0, 12), slice(12, 20))]
    measured = top1(flow, batches)
    assert (measured.top1, measured.n) == (17 / 20, 20)
    assert measured.ci[0] < 17 / 20 < measured.ci[1]


def test_accuracy_needs_a_head_and_labels():
    batch = Batch(torch.zeros(1, 3, 8, 8), None, None, None, [""])
    with pytest.raises(DataError, match="no labels"):
        top1(Oracle([0.0]), [batch])
    with pytest.raises(DataError, match="no labels"):
        top1(Oracle([0.0]), [replace(batch, label=torch.tensor([-1]))])
    with pytest.raises(DataError, match="no classifier"):
        top1(raptor.toy.Rotation([0.1]), [batch])
