"""The start of the blocks: fitted by least squares before a short training, copied before a long one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import raptor
from raptor.distillation.adapted import adapted
from raptor.distillation.distill import train_surrogate
from raptor.distillation.recipes import distillation_named
from raptor.models.surrogate import build_surrogate

PHASES = raptor.Phases.parse("5-5-2")
PROJECTION = "blocks.0.called.block.attn.proj.weight"


@pytest.fixture(scope="module")
def scenes():
    teacher = raptor.load_model("scenes")
    return teacher, raptor.load_images("scenes:train", teacher, images=96)


@pytest.mark.parametrize(
    ("steps", "batch_size", "options", "n"),
    [
        (60, 32, {}, 256),
        (30, 16, {}, 64),
        (100, 4, {}, 53),
        (101, 32, {}, 0),  # long enough to do without
        (4, 8, {}, 0),  # fewer than 32 images
        (60, 32, {"relax_rank": 2}, 0),
        (60, 32, {"kind": "gelu"}, 0),
        (60, 32, {"window": 0.5}, 0),
    ],
)
def test_short_trainings_of_copied_blocks_are_fitted_first(scenes, steps, batch_size, options, n):
    teacher, images = scenes
    recipe = distillation_named("default", steps, batch_size, **options)
    pixels = next(iter(images)).pixels
    assert adapted(recipe, teacher, pixels, 96, False).fit_images == n
    assert adapted(replace(recipe, fit_images=7), teacher, pixels, 96, False).fit_images == 7


def test_a_fitted_start_is_what_least_squares_gives_on_the_training_images(scenes):
    teacher, images = scenes
    recipe = replace(distillation_named("default", 0, 32), fit_images=24, per_token=False, crop=1.0, window=1.0)
    found = train_surrogate(teacher, images, PHASES, recipe)
    training, _ = images.split_off(2)  # two images validate a training of no steps
    torch.manual_seed(0)
    expected = raptor.fit_surrogate(teacher, training.sample(24), PHASES, progress=False)
    weights, copied = found.raptor.state_dict(), build_surrogate(teacher, PHASES).raptor.state_dict()
    for name, value in expected.raptor.state_dict().items():
        assert torch.equal(weights[name], value), name
    assert not torch.equal(weights[PROJECTION], copied[PROJECTION])
    assert found.record["fit_images"] == 24
    assert all(parameter.requires_grad for parameter in found.raptor.parameters())


def test_a_long_training_on_scenes_has_no_open_setting_that_departs_from_the_fixed_ones(scenes):
    teacher, images = scenes
    recipe = distillation_named("default", 200, 32)
    found = adapted(recipe, teacher, next(iter(images)).pixels, 6400, False)
    assert found == replace(recipe, per_token=False, crop=1.0, window=1.0, window_keeps=(), fit_images=0)
