"""What tests of probes share: a small ViT, a few scenes, and features in hand."""

from __future__ import annotations

import torch

import raptor
from raptor.core.deserialize import from_plain
from raptor.core.serialize import to_plain
from raptor.data.load import load_images
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.distributed import SINGLE_PROCESS
from raptor.runtime.rundir import Record


def small_vit(seed=0, **options):
    torch.manual_seed(seed)
    return raptor.load_model(ViT(ViTConfig(depth=2, width=16, heads=2, n_register=1, **options)))


def scenes(teacher, split="train", images=48):
    return load_images(f"scenes:{split}", teacher, images=images, batch_size=16)


class Given:
    """Features in hand as a source; a batch is all of them."""

    def __init__(self, features):
        self.features, self.process_group = features, SINGLE_PROCESS

    def __len__(self):
        return len(self.features)

    def __iter__(self):
        yield self.features

    def shuffled(self, first_step, batch_size, seed, part):
        while True:
            yield self.features


def assert_read_back(kind, plain):
    """The JSON of a result can be read as its dataclass, which gives the same JSON again."""
    record = from_plain(Record[kind], plain)
    assert isinstance(record.result, kind)
    assert to_plain(record) == plain
    return record
