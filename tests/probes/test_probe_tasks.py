"""The three tasks: metrics against hand-made examples and scikit-learn, losses against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    jaccard_score,
    root_mean_squared_error,
    top_k_accuracy_score,
)
from torch.nn.functional import cross_entropy, interpolate

from raptor.core.bootstrap import BinnedMean
from raptor.errors import DataError
from raptor.probes.classify import Classify
from raptor.probes.depth import BinsHead, Depth
from raptor.probes.features import Features
from raptor.probes.segment import Segment


def features(batch=6, rows=3, columns=4, width=5, cls=True, **targets):
    torch.manual_seed(0)
    return Features(
        torch.randn(batch, width) if cls else None, torch.randn(batch, rows, columns, width), torch.randn(batch, width),
        **targets,
    )  # fmt: skip


def metrics(task, prediction, truth):
    """Through the streamed mean, in two batches, as a probe does it."""
    mean = BinnedMean()
    for part in (slice(0, 2), slice(2, None)):
        mean.add(task.scores(prediction[part], truth[part]))
    return {name: value.item() for name, value in task.summary(mean.mean()).items()}


def test_top1_and_top5_are_sklearns():
    torch.manual_seed(1)
    logits, label = torch.randn(200, 12), torch.arange(200) % 12
    found = metrics(Classify(torch.full((12,), 1 / 12)), logits, label)
    assert found["top1"] == pytest.approx(accuracy_score(label, logits.argmax(dim=1)))
    assert found["top5"] == pytest.approx(top_k_accuracy_score(label, logits, k=5))


def test_with_three_classes_the_five_likeliest_are_all():
    found = metrics(Classify(torch.full((3,), 1 / 3)), torch.randn(9, 3), torch.arange(9) % 3)
    assert found["top5"] == 1.0


def test_mean_iou_by_hand():
    """Two classes on 2x2 pixels; one is unlabelled and counts for nothing, whatever is predicted there."""
    truth = torch.tensor([[[0, 0], [1, 255]]])
    logits = torch.tensor([[[[1.0, -1.0], [-1.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]]]])  # predicts 0 1 / 1 1
    for unlabelled in (-1.0, 1.0):
        logits[0, 0, 1, 1] = unlabelled
        task = Segment(torch.tensor([0.5, 0.5]))
        found = task.summary(task.scores(logits, truth).mean(dim=0))
        assert found["miou"].item() == pytest.approx((1 / 2 + 1 / 2) / 2)
        assert found["pixel_accuracy"].item() == pytest.approx(2 / 3)


def test_segmentation_is_sklearns_with_classes_that_nobody_has():
    torch.manual_seed(2)
    truth = torch.randint(0, 4, (7, 8, 8))
    truth[torch.rand(7, 8, 8) < 0.2] = 255
    logits = torch.randn(7, 6, 8, 8)
    logits[:, 5] = -9.0  # of six classes one is neither there nor predicted, and one is predicted but not there
    found = metrics(Segment(torch.full((6,), 1 / 6)), logits, truth)
    counted = truth != 255
    guess, fact = logits.argmax(dim=1)[counted].numpy(), truth[counted].numpy()
    assert found["miou"] == pytest.approx(jaccard_score(fact, guess, average="macro", labels=range(5)))
    assert found["pixel_accuracy"] == pytest.approx(accuracy_score(fact, guess))
    assert np.trace(confusion_matrix(fact, guess)) / len(fact) == pytest.approx(found["pixel_accuracy"])


def test_the_loss_of_pixels_is_that_of_the_upsampled_map_and_ignores_the_unlabelled():
    task = Segment(torch.full((3,), 1 / 3))
    truth = torch.randint(0, 3, (2, 12, 16))
    truth[:, :3] = 255
    seen = features(2, mask=truth)
    head = task.head(seen)
    whole = interpolate(head(seen), (12, 16), mode="bilinear")
    assert task.loss(head(seen), truth).item() == pytest.approx(cross_entropy(whole, truth, ignore_index=255).item())
    # Every pixel once, in any order: what is drawn is the map itself.
    drawn = seen.drawn("mask", a_patch=400)
    logits = head(drawn)
    assert logits.shape == (2, 3, 1, 400 * 12)
    at = {tuple(round(v, 4) for v in column.tolist()) for column in logits[0, :, 0].T}
    assert at == {tuple(round(v, 4) for v in column.tolist()) for column in whole[0].flatten(1).T}
    assert task.loss(logits, task.truth(drawn)).item() == pytest.approx(task.loss(head(seen), truth).item(), abs=0.02)


def test_an_image_without_labels_costs_nothing():
    task = Segment(torch.full((3,), 1 / 3))
    assert task.loss(torch.randn(1, 3, 2, 2), torch.full((1, 8, 8), 255)).item() == 0.0


def test_an_id_that_no_class_has_is_named():
    with pytest.raises(DataError, match="class id 7, but the training masks have ids below 3"):
        Segment(torch.full((3,), 1 / 3)).loss(torch.randn(1, 3, 2, 2), torch.full((1, 8, 8), 7))


def test_depth_metrics_by_hand_and_by_sklearn():
    """Errors are averaged over images; pixels without depth, and images without any depth, are excluded."""
    truth = torch.tensor([[[1.0, 2.0], [4.0, 0.0]], [[2.0, 2.0], [2.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]])
    guess = torch.tensor([[[1.2, 2.6], [4.0, 9.0]], [[2.0, 2.0], [2.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
    found = metrics(Depth(0.5, 5.0, 2.0), guess, truth)
    first = root_mean_squared_error([1.0, 2.0, 4.0], [1.2, 2.6, 4.0])
    assert found["rmse"] == pytest.approx((first + 0.5) / 2, rel=1e-6)
    assert found["abs_rel"] == pytest.approx(((0.2 + 0.3 + 0) / 3 + 0.5 / 4) / 2, rel=1e-6)
    assert found["delta1"] == pytest.approx((2 / 3 + 3 / 4) / 2, rel=1e-6)


def test_the_loss_of_depth_is_adabins_and_knows_no_scale():
    """10 sqrt(var(g) + 0.15 mean(g)^2), g the difference of logarithms on known pixels."""
    torch.manual_seed(3)
    truth, guess = 1 + torch.rand(2, 4, 4), 1 + torch.rand(2, 4, 4)
    truth[0, 0] = 0
    g = (guess.log() - truth.log())[truth > 0].double().numpy()
    expected = 10 * math.sqrt(g.var(ddof=1) + 0.15 * g.mean() ** 2)
    task = Depth(0.5, 5.0, 2.0)
    assert task.loss(guess, truth).item() == pytest.approx(expected, rel=1e-5)
    scaled = task.loss(2 * truth.clamp(min=1.0), truth).item()
    assert scaled == pytest.approx(10 * math.sqrt(0.15) * math.log(2), rel=1e-4)


def test_a_head_for_depth_weighs_the_centres_of_even_bins():
    head, seen = BinsHead(10, 0.0, 2.56), features()
    torch.testing.assert_close(head.centres, 0.005 + 0.01 * torch.arange(256.0))
    assert head(seen).shape == (6, 12, 16)
    torch.nn.init.zeros_(head.linear.weight)
    torch.testing.assert_close(head(seen), torch.full((6, 12, 16), 1.28))
    with torch.no_grad():
        head.linear.bias[17] = 100.0
    torch.testing.assert_close(head(seen), torch.full((6, 12, 16), 0.175))


def test_upsampling_before_or_after_the_linear_map_is_the_same():
    seen, head = features(2), BinsHead(10, 1.0, 3.0)
    with torch.no_grad():
        head.linear.weight.mul_(100)
    read = torch.cat([seen.cls[:, None, None].expand_as(seen.patch), seen.patch], dim=-1)
    wide = interpolate(read.movedim(-1, 1), scale_factor=4, mode="bilinear").movedim(1, -1)
    torch.testing.assert_close(head(seen), head.linear(wide).softmax(dim=-1) @ head.centres)


def test_eigens_crop_counts_the_middle_of_a_padded_image():
    task = Depth(0.5, 5.0, 2.0, eigen_crop=True)
    truth = torch.ones(1, 490, 644)
    guess = torch.full((1, 490, 644), 9.0)
    guess[:, 5 + 45 : 5 + 471, 2 + 41 : 2 + 601] = 1.0
    assert task.scores(guess, truth)[0, 0].item() == 0.0
    guess[:, 5 + 45, 2 + 41] = 2.0
    assert task.scores(guess, truth)[0, 0].item() == pytest.approx(1 / math.sqrt(426 * 560), rel=1e-5)


def test_without_cls_a_head_reads_patches_alone():
    seen = features(cls=False)
    assert torch.equal(seen.pooled, seen.mean)
    assert Depth(0.5, 5.0, 2.0).head(seen)(seen).shape == (6, 12, 16)
