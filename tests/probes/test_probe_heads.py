"""Heads of probes: optima that are known, and heads that do not know of one another."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from probed import Given, scenes, small_vit
from raptor.errors import OptionError, TrainingError
from raptor.probes.classify import Classify, PooledHead, read_own_head
from raptor.probes.depth import Depth
from raptor.probes.features import Features, Live
from raptor.probes.options import ProbeOptions
from raptor.probes.probe import probe_sources
from raptor.probes.tasks import tasks_of
from raptor.probes.training import own_start, train_config, train_heads
from raptor.training.config import TrainConfig


def test_the_head_reaches_the_optimum_of_logistic_regression():
    torch.manual_seed(0)
    means, label = 0.7 * torch.randn(3, 4), torch.arange(300) % 3
    mean = means[label] + torch.randn(300, 4)
    seen = Features(None, None, mean, label=label)
    task = Classify(torch.full((3,), 1 / 3))
    recipe = TrainConfig(800, 300, lr=0.1, warmup=10, weight_decay=0.0, clip=None)
    (head,) = train_heads(task, Given(seen), recipe, [0.1], task.head(seen))
    best = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-10).fit(mean.numpy(), label.numpy())
    logits = torch.from_numpy(best.decision_function(mean.numpy())).float()
    assert task.loss(head(seen), label).item() == pytest.approx(task.loss(logits, label).item(), abs=1e-5)
    agree = head(seen).argmax(dim=1) == torch.from_numpy(best.predict(mean.numpy()))
    assert agree.float().mean() > 0.99


@pytest.mark.long
def test_the_head_recovers_a_depth_that_its_bins_can_say():
    """Depth is linear in the number of a bin, and each patch tells its bin by one feature of its own."""
    torch.manual_seed(0)
    task = Depth(1.0, 9.0, 5.0)
    kinds = torch.randint(0, 16, (24, 4, 4))
    centres = torch.linspace(1.0, 9.0, 257)[:-1] + 4 / 256
    depth = centres[16 * kinds + 8]
    patch = torch.nn.functional.one_hot(kinds, 16).float()
    seen = Features(None, patch, patch.mean(dim=(1, 2)), depth=depth, at_pixels=True)
    recipe = TrainConfig(1500, 24, lr=0.3, warmup=10, weight_decay=0.0, clip=None)

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
    recipe = train_config(ProbeOptions(epochs=1), task, 48, seed=3)
    assert own_start(task, source) == (None, None)
    torch.manual_seed(3)
    start = task.head(next(iter(source)))
    together = train_heads(task, source, recipe, [1e-3, 1e-1], start)
    alone = [train_heads(task, source, recipe, [rate], start)[0] for rate in (1e-3, 1e-1)]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.linear.weight, other.linear.weight)
    assert not torch.allclose(together[0].linear.weight, together[1].linear.weight, atol=1e-3)


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
    result = probe_sources(task, *sets, ProbeOptions(lrs=[1e-12], seeds=[0], epochs=0.1))["classify"]
    assert result.heads["fine-tuned"].metrics == result.heads["own"].metrics
    assert result.notes == ()
    few = [Live(teacher, scenes(teacher, "train", 16)), *sets[1:]]
    (note,) = probe_sources(task, *few, ProbeOptions(lrs=[1e-12], seeds=[0], epochs=0.1))["classify"].notes
    assert "too few images" in note


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lrs", [[], [0.0], [1e-3, 1e-3], [math.nan]]),
        ("seeds", [[]]),
        ("epochs", [-1.0, 0.0, math.nan, math.inf]),
        ("batch_size", [-2, 0]),
    ],
)
def test_plans_that_make_no_sense_are_refused(name, values):
    for value in values:
        with pytest.raises(OptionError):
            ProbeOptions(**{name: value})


def test_few_images_make_small_batches():
    task = Classify(torch.full((3,), 1 / 3))
    few, many = (train_config(ProbeOptions(), task, n, 0) for n in (400, 10**6))
    assert (few.batch_size, few.steps) == (20, 300)
    assert (many.batch_size, many.warmup) == (512, 100)


def test_a_rate_that_diverges_ends_its_own_head_alone():
    torch.manual_seed(0)
    label = torch.arange(60) % 3
    good = Features(None, None, torch.nn.functional.one_hot(label, 3).float(), label=label)
    task = Classify(torch.full((3,), 1 / 3))
    plan = ProbeOptions(lrs=[1e38, 1e-1], seeds=[0], epochs=5)
    result = probe_sources([task], Given(good), Given(good), Given(good), plan)["classify"]
    assert result.lr == 1e-1
    assert result.reported["top1"].value == 1.0
    broken = Features(None, None, torch.full((60, 3), torch.nan), label=label)
    with pytest.raises(TrainingError, match="'classify' diverged"):
        probe_sources([task], Given(broken), Given(good), Given(good), plan)
