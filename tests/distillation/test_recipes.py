"""Recipes: the published numbers, and what may be changed in them."""

from __future__ import annotations

import pytest

from raptor.distillation.options import DistillOptions
from raptor.distillation.recipes import distillation_named
from raptor.errors import OptionError
from raptor.training.accelerate import LaunchOptions
from raptor.training.schedules import annealed


def test_the_weight_of_forcing_falls_linearly():
    assert [annealed(step, 8, 0.5, 0.5) for step in (0, 1, 2, 4, 7)] == [0.5, 0.375, 0.25, 0, 0]
    assert annealed(0, 8, 0.5, 0.0) == 0


def test_recipes_are_the_published_numbers():
    released = distillation_named("released", steps=312_500, batch_size=64)
    paper = distillation_named("paper", steps=400_365, batch_size=64)
    for recipe, lr, clip in ((released.end_to_end, 3e-4, 1.0), (paper.end_to_end, 1e-4, None)):
        assert (recipe.lr, recipe.clip, recipe.warmup, recipe.weight_decay) == (lr, clip, 10_000, 1e-4)
        assert recipe.lr * recipe.floor == pytest.approx(1e-6)
    assert (released.forcing, paper.forcing, released.forcing_share) == (1.0, 0.5, 0.25)
    assert released.end_to_end_weights == {"cls": 0.45, "register": 0.10, "patch": 0.45}
    assert (released.kind, released.block["layer_scale"], released.normalise) == ("swiglu", 1e-5, False)
    with pytest.raises(OptionError, match="default, paper, released"):
        distillation_named("best")


def test_rates_can_be_changed_and_muon_left_out():
    changed = distillation_named("released", lr=1e-2, muon_lr=3e-3)
    assert (changed.blockwise.lr, changed.end_to_end.muon_lr) == (1e-2, 3e-3)
    assert distillation_named("default", muon_lr=0).blockwise.muon_lr is None
    assert distillation_named("default", muon_lr=0).end_to_end.muon_lr is None
    ours, slower = distillation_named("default"), distillation_named("default", muon_lr=1e-3)
    assert slower.end_to_end.muon_lr / slower.blockwise.muon_lr == pytest.approx(
        ours.end_to_end.muon_lr / ours.blockwise.muon_lr
    )


def test_stage_1_can_have_other_steps_with_the_same_share_of_warmup():
    whole, shorter = (distillation_named("default", 2000, blockwise_steps=steps) for steps in (None, 1000))
    assert (shorter.blockwise.steps, shorter.blockwise.warmup) == (1000, whole.blockwise.warmup // 2)
    assert shorter.end_to_end == whole.end_to_end
    assert distillation_named("default", 2000, blockwise_steps=0).blockwise.steps == 0
    assert DistillOptions(steps=9, blockwise_steps=4).distillation().blockwise.steps == 4


def test_options_of_blocks_go_with_their_kind():
    changed = distillation_named("released", layer_scale=0.1)
    assert changed.block == {"mlp_ratio": 4.0, "layer_scale": 0.1}
    assert distillation_named("released", kind="teacher").block == {}


def test_the_error_of_a_recipe_can_be_replaced():
    plain = distillation_named("default", error="squared")
    assert (plain.normalise, plain.per_token) == (False, False)
    for name in ("default", "released"):
        of_groups, of_tokens = (distillation_named(name, error=error) for error in ("variance", "token-variance"))
        assert (of_groups.normalise, of_groups.per_token) == (True, False)
        assert (of_tokens.normalise, of_tokens.per_token) == (True, True)
    with pytest.raises(OptionError, match="unknown error 'huber'; choose squared, variance, token-variance"):
        distillation_named("default", error="huber")


@pytest.mark.parametrize("rate", [-1.0, 0.0, float("nan")])
def test_rates_that_are_none_are_refused(rate):
    with pytest.raises(OptionError, match="above 0"):
        distillation_named("default", lr=rate)


def test_configurations_keep_the_keys_that_earlier_runs_have():
    ours = distillation_named("default").to_config()
    assert list(ours) == ["apart", "joined", "kind", "block", "forcing", "forcing_share", "last_weights",
                          "joined_weights", "normalise"]  # fmt: skip
    assert {"steps", "batch_size", "lr", "muon_lr"} < set(ours["apart"])
    config = {"precision": "bf16", "accumulate": 2, "recompute": True, "trackers": (), "together": True}
    launch = LaunchOptions.from_config(config)
    assert (launch.gradient_accumulation_steps, launch.gradient_checkpointing) == (2, True)
    assert launch.to_config() == config
