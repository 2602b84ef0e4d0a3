"""The ViT that ships: frozen weights, with their history, that do what the history says."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch

import raptor
from raptor.core.accuracy import top1
from raptor.data.load import load_images
from raptor.models.load import SHIPPED

# Later numbers rest on these weights: they are never trained anew to make one look better.
FROZEN = "02aff2b599176e750af3bf55a0bade215055ff56c00ef51baa2ecaedb915bde3"


@pytest.fixture(scope="module")
def teacher():
    return raptor.load_model("scenes")


@pytest.fixture(scope="module")
def record():
    return json.loads((SHIPPED / "training.json").read_text())


def test_the_weights_are_the_frozen_ones(record):
    weights = (SHIPPED / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == FROZEN == record["sha256"]
    assert len(weights) <= 5_000_000


def test_it_is_the_vit_that_is_described(teacher):
    assert (teacher.depth, teacher.width, teacher.image_size) == (12, 128, (64, 64))
    assert teacher.layout.counts == {"cls": 1, "register": 4, "patch": 64}
    assert teacher.parts.patch_size == (8, 8)
    assert 0 < teacher.module.config.drop_path <= 0.2
    assert all(parameter.dtype == torch.float32 for parameter in teacher.module.parameters())


def test_its_history_says_how_to_make_it_again(record):
    assert record["command"].startswith("raptor train --data scenes ")
    assert record["train_images"] == record["steps"] * 64
    low, high = record["top1_ci"]
    assert 0.85 <= low < record["top1"] < high <= 0.97


def test_its_accuracy_is_the_recorded_one(teacher, record):
    images = load_images("scenes", teacher, "test", 600, batch_size=100)
    measured = top1(teacher, images)
    spread = (record["top1"] * (1 - record["top1"]) / measured.n) ** 0.5
    assert abs(measured.top1 - record["top1"]) < 4 * spread
