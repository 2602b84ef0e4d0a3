"""Probes: a backbone that is left alone, splits that are kept apart, and intervals that are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from probed import Given, scenes, small_vit
from raptor.core.batches import Batch
from raptor.data.scenes.images import SceneImages
from raptor.errors import DataError, OptionError
from raptor.probes.classify import Classify
from raptor.probes.features import CachedFeatures, Features, Live, filling
from raptor.probes.options import ProbeOptions
from raptor.probes.probe import probe_sources
from raptor.probes.tasks import tasks_of
from raptor.runtime.array_cache import in_memory

EVERYTHING = {"cls", "patch", "mean", "own", "label", "mask", "depth"}


def test_no_gradient_reaches_the_backbone_and_it_stays_as_it_is():
    teacher = small_vit()
    teacher.module.requires_grad_(True)
    before = {name: value.clone() for name, value in teacher.module.state_dict().items()}
    sets = [Live(teacher, scenes(teacher, split, 32)) for split in ("train", "validation", "test")]
    assert all(not value.requires_grad for value in (next(iter(sets[0])).patch, next(iter(sets[0])).own))
    probe_sources(tasks_of(sets[0].images), *sets, ProbeOptions(lrs=[1e-2], seeds=[0], epochs=1))
    assert all(parameter.grad is None for parameter in teacher.module.parameters())
    for name, value in teacher.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_kept_features_are_the_live_ones_in_half_precision():
    teacher = small_vit()
    live = Live(teacher, scenes(teacher, images=40))
    plan = filling(live, EVERYTHING, next(iter(live)))
    kept = CachedFeatures(in_memory(plan), 16, torch.device("cpu"))
    assert len(kept) == 40
    assert sum(array.nbytes for shard in kept.arrays.shards for array in shard.values()) == 40 * plan.bytes_each
    for one, other in zip(live, kept, strict=True):
        for name in ("cls", "patch", "mean", "own", "depth"):
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-3, atol=1e-3)
        assert torch.equal(one.label, other.label)
        assert torch.equal(one.mask, other.mask)


def test_the_backbone_runs_once_an_image_for_all_tasks_rates_and_seeds(monkeypatch):
    teacher = small_vit()
    embedded = []
    embed = type(teacher).embed
    monkeypatch.setattr(
        type(teacher), "embed", lambda self, pixels: embedded.append(len(pixels)) or embed(self, pixels)
    )
    live = [Live(teacher, scenes(teacher, split, 32)) for split in ("train", "validation", "test")]
    plan = filling(live[0], EVERYTHING, next(iter(live[0])))
    assert sum(embedded) == 16  # one batch, to tell the size
    kept = CachedFeatures(in_memory(plan), 16, torch.device("cpu"))
    probe_sources(tasks_of(live[0].images), kept, *live[1:], ProbeOptions(lrs=[1e-3, 1e-2], seeds=[0, 1], epochs=1))
    assert sum(embedded) == 16 + 3 * 32


def test_in_one_call_the_backbone_runs_once_an_image_but_for_a_look(monkeypatch):
    teacher = small_vit()
    embedded = []
    embed = type(teacher).embed
    monkeypatch.setattr(
        type(teacher), "embed", lambda self, pixels: embedded.append(len(pixels)) or embed(self, pixels)
    )
    sets = [scenes(teacher, split, 32) for split in ("train", "validation", "test")]
    found = raptor.probe(teacher, *sets, options=ProbeOptions(lrs=[1e-3, 1e-2], seeds=[0, 1], epochs=1))
    assert sum(embedded) == 16 + 3 * 32
    assert list(found) == ["classify", "segment", "depth"]
    few = raptor.probe(teacher, *sets, ["depth"], ProbeOptions(lrs=[1e-3], seeds=[0], epochs=1, live=True))
    assert list(few) == ["depth"]


def test_rates_are_selected_on_one_split_and_reported_on_another():
    """The labels of the report are shuffled: what was selected is what the selection split says, and stays."""
    torch.manual_seed(0)
    label = torch.arange(200) % 4
    mean = torch.nn.functional.one_hot(label, 4).float() + 0.3 * torch.randn(200, 4)
    good, wrong = Features(None, None, mean, label=label), Features(None, None, mean, label=(label + 1) % 4)
    task = Classify(torch.full((4,), 0.25))
    found = probe_sources(
        [task], Given(good), Given(good), Given(wrong), ProbeOptions(lrs=[1e-9, 3e-1], seeds=[0, 1], epochs=10)
    )
    result = found["classify"]
    assert result.lr == 3e-1
    assert "learning rate, 0.3" in result.notes[-1]
    assert result.selection[3e-1] > 0.9 > result.selection[1e-9]
    assert result.heads["fine-tuned"]["top1"].value < 0.1
    assert result.images == {"train": 200, "select": 200, "report": 200}
    assert "own" not in result.heads


def test_values_are_means_over_seeds_and_intervals_hold_them():
    teacher = small_vit()
    sets = [Live(teacher, scenes(teacher, split, 64)) for split in ("train", "validation", "test")]
    for name, result in probe_sources(
        tasks_of(sets[0].images), *sets, ProbeOptions(lrs=[1e-2], seeds=[0, 1], epochs=2)
    ).items():
        for column in result.heads.values():
            for metric, found in column.metrics.items():
                assert found.low <= found.value <= found.high, (name, metric)
                assert found.value == pytest.approx(np.mean(column.by_seed[metric]))
                assert found.n == 64
        assert len(result.heads["fine-tuned"].by_seed[metric]) == 2


def test_a_probe_on_a_lower_layer_reads_that_layer_through_the_final_norm():
    teacher = small_vit()
    batch = next(iter(scenes(teacher)))
    low = Live(teacher, [], layer=0).of(batch)
    expected = teacher.readout(teacher.embed(batch.pixels))
    torch.testing.assert_close(low.patch.flatten(1, 2), expected[:, teacher.layout.where("patch")])
    assert low.own is None


def test_tasks_are_those_that_images_have_labels_for():
    teacher = small_vit()

    class Labelled(SceneImages):
        classes, n_mask_classes = ("a", "b"), None

        def __init__(self, **targets):
            super().__init__(teacher.preprocessing, "train", 2, 2)
            self.targets = {"label": None, "mask": None, "depth": None, **targets}

        def sample(self, n):
            return self

        def unsharded(self):
            return self

        def __iter__(self):
            yield Batch(torch.zeros(2, 3, 8, 8), path=["", ""], **self.targets)

    assert [task.name for task in tasks_of(scenes(teacher))] == ["classify", "segment", "depth"]
    (task,) = tasks_of(Labelled(label=torch.tensor([1, 1])))
    assert task.frequency.tolist() == [0.0, 1.0]
    (task,) = tasks_of(Labelled(mask=torch.tensor([[[0, 255], [4, 4]]] * 2)))
    torch.testing.assert_close(task.frequency, torch.tensor([1 / 3, 0, 0, 0, 2 / 3]))
    (task,) = tasks_of(Labelled(depth=torch.tensor([[[0.0, 2.0], [4.0, 3.0]]] * 2)))
    assert task.low < 2.0 < 4.0 < task.high
    assert task.mean == pytest.approx(3.0)
    with pytest.raises(DataError, match="'segment' needs masks"):
        tasks_of(Labelled(label=torch.tensor([0, 1])), ["segment"])
    with pytest.raises(DataError, match="no labels, no masks, no depths"):
        tasks_of(Labelled())
    with pytest.raises(DataError, match="no pixel of 2000 training images has a depth"):
        tasks_of(Labelled(depth=torch.zeros(2, 2, 2)))
    with pytest.raises(OptionError, match="no task 'count'; use classify, segment, depth"):
        tasks_of(Labelled(), ["count"])


def test_intervals_are_as_wide_as_those_of_a_share():
    """Of 400 images of which 7 in 10 are right: a standard error of 2.3 points."""
    label = torch.zeros(400, dtype=torch.long)
    mean = torch.zeros(400, 2)
    mean[:, 0], mean[torch.randperm(400, generator=torch.Generator().manual_seed(0))[:120], 1] = 1.0, 3.0
    task = Classify(torch.tensor([0.5, 0.5]))
    seen = Features(None, None, mean, own=mean, label=label)
    column = probe_sources([task], Given(seen), Given(seen), Given(seen), ProbeOptions([1e-9], [0], epochs=0.1))[
        "classify"
    ]
    found = column.heads["own"]["top1"]
    assert found.value == pytest.approx(0.7)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.0229, rel=0.15)


def test_features_of_half_precision_models_are_read_in_single():
    teacher = raptor.load_model(small_vit().module, dtype=torch.bfloat16)
    seen = Live(teacher, []).of(next(iter(scenes(teacher))))
    assert {seen.patch.dtype, seen.cls.dtype, seen.own.dtype} == {torch.float32}


def test_sets_without_what_a_task_takes_are_told_before_training():
    teacher = small_vit()

    class Bare:
        def __init__(self, images):
            self.images = images

        def __iter__(self):
            return (Batch(batch.pixels, batch.label, None, batch.depth, batch.path) for batch in self.images)

    sets = [scenes(teacher, split, 16) for split in ("train", "validation", "test")]
    with pytest.raises(DataError, match="needs masks; the images to report on"):
        raptor.probe(teacher, sets[0], sets[1], Bare(sets[2]), ["segment"])


def test_a_lack_of_cls_is_told_to_heads_that_would_read_it_alone():
    teacher = small_vit()
    sets = [scenes(teacher, split, 16) for split in ("train", "validation", "test")]
    found = raptor.probe(teacher, *sets, ["segment"], ProbeOptions([1e-2], [0], epochs=1))["segment"]
    assert found.notes == ()
