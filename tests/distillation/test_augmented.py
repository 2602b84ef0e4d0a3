"""Windows of patches, random crops, errors by token and the curve of validation, during a distillation."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace

import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.core.tokens import TokenLayout
from raptor.data.load import load_images
from raptor.distillation import validation
from raptor.distillation.adapted import adapted
from raptor.distillation.distill import train_surrogate
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.losses import TrajectoryLoss, variance_at
from raptor.distillation.recipes import distillation_named
from raptor.distillation.windows import Window, tokens_at, treats_tokens_as_a_set
from raptor.errors import OptionError
from raptor.models.vit import ViT, ViTConfig
from raptor.training.augment import random_crop
from raptor.training.config import TrainConfig
from raptor.training.loop import TrainingInterrupted
from vits import FAMILIES, pixels

LAYOUT = TokenLayout(n_cls=1, n_register=2, grid=(4, 6))


def test_a_window_is_a_rectangle_of_neighbours_and_every_place_is_drawn():
    numbers = torch.arange(LAYOUT.n_tokens, dtype=torch.float32)[None, :, None].expand(300, -1, 2)
    window = Window(LAYOUT, 0.5)
    assert window.grid == (2, 3)
    assert window.inside == TokenLayout(1, 2, (2, 3))
    torch.manual_seed(0)
    taken = window.take(numbers)[..., 0]
    assert (taken[:, :3] == torch.arange(3)).all()  # cls and registers
    patches = taken[:, 3:].reshape(300, 2, 3) - 3
    rows, columns = patches // 6, patches % 6
    assert (rows[:, 1] - rows[:, 0] == 1).all()
    assert (columns[:, :, 1:] - columns[:, :, :-1] == 1).all()
    corners = {(int(row), int(column)) for row, column in zip(rows[:, 0, 0], columns[:, 0, 0], strict=True)}
    assert corners == {(row, column) for row in range(3) for column in range(4)}
    assert torch.equal(Window(LAYOUT, 1.0).take(numbers), numbers)
    with pytest.raises(OptionError, match="share"):
        Window(LAYOUT, 0.0)


def test_a_window_always_sees_the_kept_patches_and_no_patch_twice():
    numbers = torch.arange(LAYOUT.n_tokens, dtype=torch.float32)[None, :, None].expand(300, -1, 2)
    kept = (0, 5, 14)
    window = Window(LAYOUT, 0.5, kept)
    assert window.inside == TokenLayout(1, 2, (1, 9))
    torch.manual_seed(0)
    taken = window.take(numbers)[..., 0].int()
    torch.manual_seed(0)
    plain = Window(LAYOUT, 0.5).take(numbers)[..., 0].int()
    others = set()
    for patches, rectangle in zip((taken - 3).tolist(), (plain - 3).tolist(), strict=True):
        assert patches == sorted(set(patches))
        assert patches[:3] == [-3, -2, -1]  # cls and registers
        wanted = {*rectangle, *kept}
        assert wanted <= set(patches)
        others |= set(patches) - wanted
        assert len(patches) == 3 + 9
    assert others == set(range(24)) - set(kept)  # random ones, where the rectangle has a kept patch
    assert Window(LAYOUT, 1.0, kept) == Window(LAYOUT, 1.0)


def test_windows_keep_the_patches_with_massive_activations():
    teacher = raptor.load_model("scenes")
    images = raptor.load_images("scenes:train", teacher, images=8)
    pixels = next(iter(images)).pixels

    class Planted(type(teacher)):
        """Patches 3 and 9 get 50 times their norm, in every image."""

        def embed(self, pixels):
            tokens = super().embed(pixels)
            tokens[:, [3 + self.layout.n_prefix, 9 + self.layout.n_prefix]] *= 50
            return tokens

    chosen = distillation_named("default", 200, 32, window=0.5)
    assert adapted(chosen, teacher, pixels, 6400, False).window_keeps == ()
    teacher.__class__ = Planted
    found = adapted(chosen, teacher, pixels, 6400, False)
    assert found.window_keeps == (3, 9)
    assert found.per_token
    assert adapted(replace(chosen, window_keeps=(1,)), teacher, pixels, 6400, False).window_keeps == (1,)
    assert adapted(replace(chosen, window=1.0), teacher, pixels, 6400, False).window_keeps == ()


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_only_blocks_without_positions_run_on_a_window(case):
    teacher = raptor.load_model(case.build())
    positions = any(word in case.name for word in ("dinov3", "-own", "-shared"))  # rotary, or relative biases
    tokens = teacher.embed(pixels(*teacher.image_size))
    assert treats_tokens_as_a_set(teacher, tokens) != positions


def test_a_crop_of_a_ramp_is_a_ramp_of_an_allowed_rectangle():
    """Bilinear resizing keeps a linear image linear; its ends say which rectangle was cut out."""
    size, n = 64, 200
    ramp = (torch.arange(size) + 0.5) / size
    images = torch.stack([ramp.expand(size, -1), ramp[:, None].expand(-1, size), torch.zeros(size, size)])
    torch.manual_seed(0)
    cropped = random_crop(images.expand(n, -1, -1, -1), 0.25)
    middle = slice(8, 56)  # away from the border, whose pixels are repeated
    across, down = cropped[:, 0, size // 2, middle], cropped[:, 1, middle, size // 2]
    for line in (across, down):
        slopes = line.diff(dim=1)
        torch.testing.assert_close(slopes, slopes.mean(dim=1, keepdim=True).expand_as(slopes), rtol=1e-3, atol=1e-5)
    width, height = (line.diff(dim=1).mean(dim=1) * size for line in (across, down))
    area = width * height
    assert area.min() >= 0.25 * 0.99 - 0.05
    assert area.max() <= 1.01
    assert 0.5 < area.mean() < 0.7  # uniform shares: .625
    assert (width / height).log().abs().max() <= math.log(4 / 3) + 0.01
    assert torch.equal(random_crop(images[None], 1.0), images[None])


def test_errors_of_tokens_are_over_the_variance_of_their_position():
    """With all tokens, and with a window whose images see different tokens."""
    layout = TokenLayout(n_cls=1, n_register=0, grid=(2, 3))
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(4, 2, 7, 5, dtype=torch.float64, generator=generator)
    predicted = truth + torch.randn(truth.shape, dtype=torch.float64, generator=generator)
    variance = torch.rand(2, 7, dtype=torch.float64, generator=generator) + 0.1
    error = (predicted - truth).square().mean(dim=-1) / variance  # images, layers, tokens
    loss = TrajectoryLoss({"cls": 0.5, "patch": 0.5}, per_token=True)
    expected = (error[:, :, 0].mean(dim=0) + error[:, :, 1:].mean(dim=(0, 2))) / 2
    torch.testing.assert_close(loss(predicted, truth, layout, {"token": variance}), expected)
    torch.testing.assert_close(loss(list(predicted.unbind(1)), truth, layout, {"token": variance}), expected)
    # A token with massive activations counts as much as any other.
    massive = torch.ones(7, 1, dtype=torch.float64)
    massive[4] = 1000
    larger = {"token": variance * massive[:, 0].square()}
    torch.testing.assert_close(loss(massive * predicted, massive * truth, layout, larger), expected)
    window = Window(layout, 0.5, kept=(4,))
    numbers = window.draw(4, truth.device)
    assert len(set(map(tuple, numbers.tolist()))) > 1
    seen = [torch.stack([tokens_at(states[:, at], numbers) for at in range(2)], dim=1) for states in (predicted, truth)]
    expected = torch.stack([error[i, :, numbers[i]] for i in range(4)])  # images, layers, tokens
    expected = (expected[:, :, 0].mean(dim=0) + expected[:, :, 1:].mean(dim=(0, 2))) / 2
    found = loss(*seen, window.inside, variance_at({"token": variance}, numbers))
    torch.testing.assert_close(found, expected)


def recipe(**changes):
    stage = TrainConfig(steps=8, batch_size=32, lr=1e-3, warmup=2)
    return Distillation(
        **{
            "blockwise": stage, "end_to_end": stage, "crop": 0.4, "window": 0.5, "normalise": True,
            "per_token": True,
            "forcing": 0.0, **changes,
        }
    )  # fmt: skip


def small_teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))


def curve(folder):
    files = [folder / f"stage{stage}/validation.jsonl" for stage in (1, 2)]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("stopped", [3, 11])
def test_a_training_with_crops_and_windows_resumes_to_the_same_weights_and_curve(tmp_path, monkeypatch, stopped):
    teacher = small_teacher()
    images = load_images("scenes", teacher, "train", 64, batch_size=8)
    whole = train_surrogate(teacher, images, Phases((2, 2)), recipe(), out=tmp_path / "whole")
    n = 0

    def stop(state):
        nonlocal n
        n += 1
        if n == stopped:
            raise TrainingInterrupted(n)

    monkeypatch.setattr("raptor.training.loop.SAVE_SECONDS", 0.0)  # a checkpoint after every step
    first = train_surrogate(teacher, images, Phases((2, 2)), recipe(), out=tmp_path / "two", progress=stop)
    assert "unfinished" in first.record
    resumed = train_surrogate(teacher, images, Phases((2, 2)), recipe(), out=tmp_path / "two", resume=True)
    for a, b in zip(whole.raptor.parameters(), resumed.raptor.parameters(), strict=True):
        assert torch.equal(a, b)
    points = [{**line, "seconds": None} for line in curve(tmp_path / "whole")]
    assert points == [{**line, "seconds": None} for line in curve(tmp_path / "two")]
    assert [line["step"] for line in points]
    assert all(0 < line["error"] < 10 and "cosine" in line for line in points)


def test_stage_1_sees_windows_and_stage_2_all_patches(monkeypatch):
    seen = []
    inner = TrajectoryLoss.__call__

    def spy(self, predicted, truth, layout, variance=None):
        seen.append(layout.n_patch)
        return inner(self, predicted, truth, layout, variance)

    teacher = small_teacher()
    images = load_images("scenes", teacher, "train", 64, batch_size=8)
    monkeypatch.setattr(TrajectoryLoss, "__call__", spy)
    monkeypatch.setattr(validation.Validation, "measure", lambda self, images: {"error": 1.0})
    train_surrogate(teacher, images, Phases((2, 2)), recipe())
    every, part = teacher.layout.n_patch, teacher.layout.n_patch // 4
    assert seen == [part] * (2 * 8) + [every] * 8  # stage 1 has one loss per block


@pytest.mark.parametrize(("train", "said"), [(0.7, True), (0.9, False)])
def test_a_run_that_overfits_says_so(caplog, monkeypatch, train, said):
    """The start has error 2, the end 1 on held-out images; 1 / .7 is above the limit of 1.25, and 1 / .9 is not."""
    errors = iter([2.0, 1.0, train])
    monkeypatch.setattr(validation.Validation, "measure", lambda self, images: {"error": next(errors)})
    teacher = small_teacher()
    images = load_images("scenes", teacher, "train", 64, batch_size=8)
    with caplog.at_level(logging.WARNING):
        surrogate = train_surrogate(teacher, images, Phases((2, 2)), recipe())
    assert surrogate.record["validation"]["train"] == train
    assert ("overfits" in caplog.text) == said


def test_a_curve_whose_last_line_was_cut_off_is_continued(tmp_path):
    teacher = small_teacher()
    images = load_images("scenes", teacher, "train", 64, batch_size=8)
    train_surrogate(teacher, images, Phases((2, 2)), recipe(), out=tmp_path)
    file = tmp_path / "stage2/validation.jsonl"
    whole = file.read_text()
    (tmp_path / "stage2/checkpoint.pt").unlink()
    file.write_text(whole[: -len(whole.splitlines()[-1]) // 2])
    train_surrogate(teacher, images, Phases((2, 2)), recipe(), out=tmp_path, resume=True)
    again = [{**json.loads(line), "seconds": None} for line in file.read_text().splitlines()]
    assert again == [{**json.loads(line), "seconds": None} for line in whole.splitlines()]


def test_the_curve_has_the_measures_of_fidelity(tmp_path):
    teacher = small_teacher()
    images = load_images("scenes", teacher, "train", 64, batch_size=8)
    surrogate = train_surrogate(teacher, images, Phases((2, 2)), recipe(), out=tmp_path)
    last = curve(tmp_path)[-1]
    assert last["step"] == recipe().end_to_end.steps
    _, held_out = validation.split_off(images, recipe())
    wanted = raptor.fidelity(surrogate, held_out, options=raptor.FidelityOptions(linear_images=0)).by_layer
    assert last["skill"] == pytest.approx(wanted["skill"].mean["all"][-1], rel=1e-5)
    assert last["cosine"] == pytest.approx(wanted["cosine"].mean["all"][-1], rel=1e-5)
