"""Probes: optima that are known, heads that do not know of one another, and a backbone that is left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import raptor
from raptor.data import load_images
from raptor.data.batch import Batch
from raptor.errors import DataError, OptionError, TrainingError
from raptor.models.vit import ViT, ViTConfig
from raptor.probes.classify import Classify, PooledHead, read_own_head
from raptor.probes.depth import Depth
from raptor.probes.features import Features, Kept, Live, filling
from raptor.probes.plan import Plan
from raptor.probes.probe import probe_sources
from raptor.probes.tasks import tasks_of
from raptor.probes.training import own_start, train_heads
from raptor.sharded import in_memory
from raptor.training.recipe import Recipe

EVERYTHING = {"cls", "patch", "mean", "own", "label", "mask", "depth"}


def small_vit(seed=0, **options):
    torch.manual_seed(seed)
    return raptor.load_teacher(ViT(ViTConfig(depth=2, width=16, heads=2, n_register=1, **options)))


def scenes(teacher, split="train", images=48):
    return load_images(f"scenes:{split}", teacher, images=images, batch_size=16)


class Given:
    """Features in hand as a source; a batch is all of them."""

    def __init__(self, features):
        self.features = features

    def __len__(self):
        return len(self.features)

    def __iter__(self):
        yield self.features

    def shuffled(self, first_step, batch_size, seed, part):
        while True:
            yield self.features


def test_the_head_reaches_the_optimum_of_logistic_regression():
    torch.manual_seed(0)
    means, label = 0.7 * torch.randn(3, 4), torch.arange(300) % 3
    mean = means[label] + torch.randn(300, 4)
    seen = Features(None, None, mean, label=label)
    task = Classify(torch.full((3,), 1 / 3))
    recipe = Recipe(800, 300, lr=0.1, warmup=10, weight_decay=0.0, clip=None)
    (head,) = train_heads(task, Given(seen), recipe, [0.1], task.head(seen))
    best = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-10).fit(mean.numpy(), label.numpy())
    logits = torch.from_numpy(best.decision_function(mean.numpy())).float()
    assert task.loss(head(seen), label).item() == pytest.approx(task.loss(logits, label).item(), abs=1e-5)
    agree = head(seen).argmax(dim=1) == torch.from_numpy(best.predict(mean.numpy()))
    assert agree.float().mean() > 0.99


def test_the_head_recovers_a_depth_that_its_bins_can_say():
    """Depth is linear in the number of a bin, and each patch tells its bin by one feature of its own."""
    torch.manual_seed(0)
    task = Depth(1.0, 9.0, 5.0)
    kinds = torch.randint(0, 16, (24, 4, 4))
    centres = torch.linspace(1.0, 9.0, 257)[:-1] + 4 / 256
    depth = centres[16 * kinds + 8]
    patch = torch.nn.functional.one_hot(kinds, 16).float()
    seen = Features(None, patch, patch.mean(dim=(1, 2)), depth=depth, at_pixels=True)
    recipe = Recipe(1500, 24, lr=0.3, warmup=10, weight_decay=0.0, clip=None)

    class Whole(Depth):
        def shown(self, features):
            return features

    whole = Whole(1.0, 9.0, 5.0)
    (head,) = train_heads(whole, Given(seen), recipe, [0.3], task.head(seen))
    found = task.summary(task.scores(head(seen).detach(), depth).mean(dim=0))
    assert found["rmse"].item() < 0.02
    assert found["delta1"].item() == 1.0


def test_heads_of_several_rates_are_those_trained_alone():
    teacher = small_vit(n_classes=5)
    source = Live(teacher, scenes(teacher))
    task = tasks_of(scenes(teacher), ["segment"])[0]
    recipe = Plan(epochs=1).recipe(task, 48, seed=3)
    assert own_start(task, source) == (None, None)
    torch.manual_seed(3)
    start = task.head(next(iter(source)))
    together = train_heads(task, source, recipe, [1e-3, 1e-1], start)
    alone = [train_heads(task, source, recipe, [rate], start)[0] for rate in (1e-3, 1e-1)]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.linear.weight, other.linear.weight)
    assert not torch.allclose(together[0].linear.weight, together[1].linear.weight, atol=1e-3)


def test_no_gradient_reaches_the_backbone_and_it_stays_as_it_is():
    teacher = small_vit()
    teacher.module.requires_grad_(True)
    before = {name: value.clone() for name, value in teacher.module.state_dict().items()}
    sets = [Live(teacher, scenes(teacher, split, 32)) for split in ("train", "validation", "test")]
    assert all(not value.requires_grad for value in (next(iter(sets[0])).patch, next(iter(sets[0])).own))
    probe_sources(tasks_of(sets[0].images), *sets, Plan(rates=[1e-2], seeds=[0], epochs=1))
    assert all(parameter.grad is None for parameter in teacher.module.parameters())
    for name, value in teacher.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_kept_features_are_the_live_ones_in_half_precision():
    teacher = small_vit()
    live = Live(teacher, scenes(teacher, images=40))
    plan = filling(live, EVERYTHING, next(iter(live)))
    kept = Kept(in_memory(plan), 16, torch.device("cpu"))
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
    kept = Kept(in_memory(plan), 16, torch.device("cpu"))
    probe_sources(tasks_of(live[0].images), kept, *live[1:], Plan(rates=[1e-3, 1e-2], seeds=[0, 1], epochs=1))
    assert sum(embedded) == 16 + 3 * 32


def test_in_one_call_the_backbone_runs_once_an_image_but_for_a_look(monkeypatch):
    teacher = small_vit()
    embedded = []
    embed = type(teacher).embed
    monkeypatch.setattr(
        type(teacher), "embed", lambda self, pixels: embedded.append(len(pixels)) or embed(self, pixels)
    )
    sets = [scenes(teacher, split, 32) for split in ("train", "validation", "test")]
    found = raptor.probe(teacher, *sets, plan=Plan(rates=[1e-3, 1e-2], seeds=[0, 1], epochs=1))
    assert sum(embedded) == 16 + 3 * 32
    assert list(found) == ["classify", "segment", "depth"]
    few = raptor.probe(teacher, *sets, ["depth"], Plan(rates=[1e-3], seeds=[0], epochs=1), live=True)
    assert list(few) == ["depth"]


def test_the_models_own_head_is_read_exactly_where_it_is_linear():
    teacher = small_vit()
    seen = list(Live(teacher, scenes(teacher, images=400)))
    inputs, logits = torch.cat([one.pooled for one in seen]), torch.cat([one.own for one in seen])
    head = PooledHead(32, 12)
    assert read_own_head(inputs, logits, head) > 1 - 1e-6
    torch.testing.assert_close(head(seen[0]), seen[0].own, rtol=1e-3, atol=1e-4)
    # And told apart where it is not.
    spread, at = torch.std_mean(logits, dim=0)
    assert read_own_head(inputs, (4 * (logits - at) / spread).sin(), head) < 0.9
    assert not read_own_head(inputs[:3], logits[:3], head) >= 0


def test_a_classifier_starts_from_the_models_own():
    """With a rate that moves nothing, the fine-tuned column is the own one; without enough images there is a note."""
    teacher = small_vit()
    with torch.no_grad():
        teacher.module.classifier.weight.normal_()
    sets = [Live(teacher, scenes(teacher, split, n)) for split, n in (("train", 400), ("validation", 32), ("test", 64))]
    task = tasks_of(sets[0].images, ["classify"])
    result = probe_sources(task, *sets, Plan(rates=[1e-12], seeds=[0], epochs=0.1))["classify"]
    assert result.columns["fine-tuned"].value == result.columns["own"].value
    assert result.notes == ()
    few = [Live(teacher, scenes(teacher, "train", 16)), *sets[1:]]
    (note,) = probe_sources(task, *few, Plan(rates=[1e-12], seeds=[0], epochs=0.1))["classify"].notes
    assert "too few images to read it from" in note


def test_rates_are_selected_on_one_split_and_reported_on_another():
    """The labels of the report are shuffled: what was selected is what the selection split says, and stays."""
    torch.manual_seed(0)
    label = torch.arange(200) % 4
    mean = torch.nn.functional.one_hot(label, 4).float() + 0.3 * torch.randn(200, 4)
    good, wrong = Features(None, None, mean, label=label), Features(None, None, mean, label=(label + 1) % 4)
    task = Classify(torch.full((4,), 0.25))
    found = probe_sources(
        [task], Given(good), Given(good), Given(wrong), Plan(rates=[1e-9, 3e-1], seeds=[0, 1], epochs=10)
    )
    result = found["classify"]
    assert result.rate == 3e-1
    assert result.notes[-1] == "the best learning rate, 0.3, is at the end of those tried: others may be better"
    assert result.selection[3e-1] > 0.9 > result.selection[1e-9]
    assert result.columns["fine-tuned"].value["top1"] < 0.1
    assert result.images == {"train": 200, "select": 200, "report": 200}
    assert "own" not in result.columns


def test_values_are_means_over_seeds_and_intervals_hold_them():
    teacher = small_vit()
    sets = [Live(teacher, scenes(teacher, split, 64)) for split in ("train", "validation", "test")]
    for name, result in probe_sources(
        tasks_of(sets[0].images), *sets, Plan(rates=[1e-2], seeds=[0, 1], epochs=2)
    ).items():
        for column in result.columns.values():
            for metric, value in column.value.items():
                low, high = column.ci[metric]
                assert low <= value <= high, (name, metric)
                assert value == pytest.approx(np.mean(column.by_seed[metric]))
        assert len(result.columns["fine-tuned"].by_seed[metric]) == 2


def test_a_probe_on_a_lower_layer_reads_that_layer_through_the_final_norm():
    teacher = small_vit()
    batch = next(iter(scenes(teacher)))
    low = Live(teacher, None, layer=0).of(batch)
    expected = teacher.readout(teacher.embed(batch.pixels))
    torch.testing.assert_close(low.patch.flatten(1, 2), expected[:, teacher.layout.where("patch")])
    assert low.own is None


def test_tasks_are_those_that_images_have_labels_for():
    teacher = small_vit()

    class Labelled:
        batch_size, classes, n_mask_classes = 2, ("a", "b"), None

        def __init__(self, **targets):
            self.targets = {"label": None, "mask": None, "depth": None, **targets}

        def some(self, n):
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
    with pytest.raises(DataError, match="the task segment takes masks, which these images have not"):
        tasks_of(Labelled(label=torch.tensor([0, 1])), ["segment"])
    with pytest.raises(DataError, match="nothing to probe for: no labels, no masks, no depths"):
        tasks_of(Labelled())
    with pytest.raises(DataError, match="no pixel of 2000 training images has a depth"):
        tasks_of(Labelled(depth=torch.zeros(2, 2, 2)))
    with pytest.raises(OptionError, match="there is no task 'count'; there are classify, segment, depth"):
        tasks_of(Labelled(), ["count"])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rates", [[], [0.0], [1e-3, 1e-3], [math.nan]]),
        ("seeds", [[]]),
        ("epochs", [-1.0, 0.0, math.nan, math.inf]),
        ("batch_size", [-2, 0]),
    ],
)
def test_plans_that_make_no_sense_are_refused(name, values):
    for value in values:
        with pytest.raises(OptionError):
            Plan(**{name: value})


def test_few_images_make_small_batches():
    task = Classify(torch.full((3,), 1 / 3))
    assert (Plan().recipe(task, 400, 0).batch_size, Plan().recipe(task, 400, 0).steps) == (20, 300)
    assert Plan().recipe(task, 10**6, 0).batch_size == 512
    assert Plan().recipe(task, 10**6, 0).warmup == 100


def test_a_rate_that_diverges_ends_its_own_head_alone():
    torch.manual_seed(0)
    label = torch.arange(60) % 3
    good = Features(None, None, torch.nn.functional.one_hot(label, 3).float(), label=label)
    task = Classify(torch.full((3,), 1 / 3))
    plan = Plan(rates=[1e38, 1e-1], seeds=[0], epochs=5)
    result = probe_sources([task], Given(good), Given(good), Given(good), plan)["classify"]
    assert result.rate == 1e-1
    assert result.columns["fine-tuned"].value["top1"] == 1.0
    broken = Features(None, None, torch.full((60, 3), torch.nan), label=label)
    with pytest.raises(TrainingError, match="diverge with every learning rate"):
        probe_sources([task], Given(broken), Given(good), Given(good), plan)


def test_intervals_are_as_wide_as_those_of_a_share():
    """Of 400 images of which 7 in 10 are right: a standard error of 2.3 points."""
    label = torch.zeros(400, dtype=torch.long)
    mean = torch.zeros(400, 2)
    mean[:, 0], mean[torch.randperm(400, generator=torch.Generator().manual_seed(0))[:120], 1] = 1.0, 3.0
    task = Classify(torch.tensor([0.5, 0.5]))
    seen = Features(None, None, mean, own=mean, label=label)
    column = probe_sources([task], Given(seen), Given(seen), Given(seen), Plan([1e-9], [0], epochs=0.1))["classify"]
    low, high = column.columns["own"].ci["top1"]
    assert column.columns["own"].value["top1"] == pytest.approx(0.7)
    assert high - low == pytest.approx(2 * 1.96 * 0.0229, rel=0.15)


def test_features_of_half_precision_models_are_read_in_single():
    teacher = raptor.load_teacher(small_vit().module, dtype=torch.bfloat16)
    seen = Live(teacher, None).of(next(iter(scenes(teacher))))
    assert {seen.patch.dtype, seen.cls.dtype, seen.own.dtype} == {torch.float32}


def test_sets_without_what_a_task_takes_are_told_before_training():
    teacher = small_vit()

    class Bare:
        def __init__(self, images):
            self.images = images

        def __iter__(self):
            return (Batch(batch.pixels, batch.label, None, batch.depth, batch.path) for batch in self.images)

    sets = [scenes(teacher, split, 16) for split in ("train", "validation", "test")]
    with pytest.raises(DataError, match="the images to report on have no masks, which the task segment takes"):
        raptor.probe(teacher, sets[0], sets[1], Bare(sets[2]), ["segment"])
