"""Null teachers: what is changed and what is not, and surrogates of them that are trained as the saved one was."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import raptor
from raptor.core.deserialize import from_plain
from raptor.core.flow import ReorderedFlow
from raptor.core.phases import Phases
from raptor.core.serialize import to_json
from raptor.data.load import load_images
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.options import DistillOptions
from raptor.distillation.recipes import distillation_named
from raptor.errors import DataError, OptionError
from raptor.evaluation.evaluate import FidelityResult, fidelity
from raptor.evaluation.nulls import NULLS, measure_nulls, null_teacher, random_order, recorded_recipe
from raptor.evaluation.options import FidelityOptions
from raptor.evaluation.tables import NULL_NAMES
from raptor.evaluation.tables import nulls as nulls_table
from raptor.models.load import load_model
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from vits import FAMILIES

PHASES = Phases((1, 3))


def vit(layer_scale=None):
    torch.manual_seed(0)
    teacher = load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1, layer_scale=layer_scale)))
    with torch.no_grad():
        for parameter in teacher.module.parameters():  # fresh biases and norms would hide what is not replaced
            parameter.add_(0.1 * torch.randn_like(parameter))
    return teacher


def weights(teacher):
    return {name: value.clone() for name, value in teacher.parts.blocks.named_parameters()}


def pixels(teacher, n=2):
    return torch.randn(n, 3, *teacher.image_size, generator=torch.Generator().manual_seed(0))


def last(teacher):
    with torch.no_grad():
        return raptor.rollout(teacher, teacher.embed(pixels(teacher))).states[:, -1]


def test_random_blocks_have_the_norms_of_the_teacher():
    teacher = vit(layer_scale=0.1)
    before = weights(teacher)
    null = null_teacher(teacher, "random")
    for name, value in weights(null).items():
        assert not torch.allclose(value, before[name])
        assert value.double().norm().item() == pytest.approx(before[name].double().norm().item(), rel=1e-6)
    matrix = weights(null)["0.mlp.fc1.weight"]
    assert abs(torch.corrcoef(torch.stack([matrix.flatten(), before["0.mlp.fc1.weight"].flatten()]))[0, 1]) < 0.2


def test_untrained_blocks_are_those_of_the_start_of_a_training():
    null = weights(null_teacher(vit(layer_scale=0.1), "untrained"))
    for name, value in null.items():
        if value.ndim == 2:
            assert value.std().item() == pytest.approx(0.02, rel=0.15)
            assert value.abs().max() < 2.001  # torch truncates at two, not at two deviations
        else:
            expected = 0.0 if name.endswith("bias") else 1.0  # norms and LayerScale are 1
            assert (value == expected).all(), name


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_blocks_are_a_permutation_that_is_not_the_identity(seed):
    teacher = vit()
    null = null_teacher(teacher, "shuffled", seed)
    norms = [[p.norm().item() for p in block.parameters()] for block in teacher.parts.blocks]
    found = [norms.index([p.norm().item() for p in block.parameters()]) for block in null.parts.blocks]
    assert sorted(found) == [0, 1, 2, 3] != found
    reordered = ReorderedFlow(teacher, found)
    with torch.no_grad():
        expected = raptor.rollout(reordered, teacher.embed(pixels(teacher))).states[:, -1]
    torch.testing.assert_close(last(null), expected)


@pytest.mark.parametrize("kind", NULLS)
def test_the_teacher_and_its_embedding_are_untouched_and_seeds_reproduce(kind):
    teacher = vit()
    before, states = weights(teacher), last(teacher)
    one, again, other = (null_teacher(teacher, kind, seed) for seed in (0, 0, 1))
    for name, value in weights(teacher).items():
        assert torch.equal(value, before[name])
    assert torch.equal(last(teacher), states)
    assert torch.equal(one.embed(pixels(teacher)), teacher.embed(pixels(teacher)))
    assert torch.equal(one.readout(states), teacher.readout(states))
    assert torch.equal(last(one), last(again))
    assert not torch.allclose(last(one), states)
    if kind != "shuffled":
        assert not torch.allclose(last(one), last(other))
    assert kind in one.name


@pytest.mark.parametrize("kind", NULLS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_models_of_other_libraries_have_null_teachers(family, kind):
    teacher = load_model(family.build())
    null = null_teacher(teacher, kind)
    assert torch.equal(null.embed(pixels(teacher)), teacher.embed(pixels(teacher)))
    states = last(null)
    assert states.isfinite().all()
    assert not torch.allclose(states, last(teacher))
    surrogate = build_surrogate(null, Phases((null.depth,)))
    with torch.no_grad():
        assert surrogate.step(surrogate.embed(pixels(teacher)), 0).isfinite().all()


@pytest.mark.parametrize("kind", NULLS)
def test_a_surrogate_that_is_a_teacher_has_null_teachers(kind):
    teacher = load_model("scenes:k3")
    null = null_teacher(teacher, kind)
    assert torch.equal(null.embed(pixels(teacher)), teacher.embed(pixels(teacher)))
    assert last(null).isfinite().all()
    assert not torch.allclose(last(null), last(teacher))


def test_nulls_are_trained_in_the_precision_of_the_surrogate():
    """The teacher, distilled again with the recorded recipe, gives the same surrogate only in the same precision."""
    teacher = vit()
    train, held_out = (load_images("scenes", teacher, split, 16, batch_size=8) for split in ("train", "test"))
    half, full = (
        raptor.distill(
            teacher, train, PHASES, DistillOptions(steps=2, batch_size=4, precision=precision), progress=False
        )
        for precision in ("bf16", "no")
    )
    assert (half.record["precision"], full.record.get("precision")) == ("bf16", None)
    wanted, other = (
        fidelity(one, held_out, progress=False, options=FidelityOptions(linear_images=0)).by_layer["r2"].mean["all"]
        for one in (half, full)
    )
    again = measure_nulls(half, held_out, train, steps=2, progress=False)["teacher"].r2.mean["all"]
    assert again == wanted
    assert again != other


def test_what_cannot_be_made_is_named():
    with pytest.raises(OptionError, match="unknown null teacher 'other'; use random"):
        null_teacher(vit(), "other")
    with pytest.raises(OptionError, match="one layer"):
        random_order(1, torch.Generator())


def test_a_recipe_is_read_back_from_its_record():
    for name in ("default", "paper"):
        recipe = distillation_named(name, steps=400, batch_size=8, seed=3)
        closed = {"per_token": True, "crop": 0.5, "window": 0.25, "window_keeps": (0, 3), "fit_images": 32}
        recipe = replace(recipe, **closed)  # training has no open settings
        assert Distillation.from_config(recipe.to_config()) == recipe
        assert recorded_recipe(json.loads(json.dumps({"training": recipe.to_config()}))) == recipe
        short = recipe.with_steps(100)
        same = distillation_named(name, steps=100, batch_size=8, seed=3)
        assert short == replace(same, **closed)
    with pytest.raises(OptionError, match="no record of its training"):
        recorded_recipe({})
    broken = {**recipe.to_config(), "apart": {"steps": "many"}}
    with pytest.raises(OptionError, match=r"steps is 'many', not int"):
        recorded_recipe(broken)


@pytest.fixture(scope="module")
def trained():
    teacher = vit()
    train = load_images("scenes", teacher, "train", 16, batch_size=8)
    surrogate = raptor.distill(teacher, train, PHASES, DistillOptions(steps=2, batch_size=4), progress=False)
    return surrogate, train, load_images("scenes", teacher, "test", 8, batch_size=8)


def test_two_steps_from_end_to_end(trained):
    surrogate, train, held_out = trained
    options = FidelityOptions(linear_images=0, nulls=True)
    result = fidelity(surrogate, held_out, progress=False, options=options, train_images=train)
    assert list(result.nulls) == list(NULLS)
    for one in result.nulls.values():
        assert (one.steps, one.n) == ([2, 2], 8)
        for measured in (one.skill, one.update_r2, one.r2):
            assert list(measured.mean) == ["all"]
            assert len(measured.mean["all"]) == 4
            assert np.all(np.array(measured.low["all"]) <= np.array(measured.high["all"]))
    plain = json.loads(to_json(result))
    assert plain["nulls"]["random"]["skill_ci"]["all"][0] == result.nulls["random"].skill.low["all"]
    again = from_plain(FidelityResult, plain)
    assert json.loads(to_json(again)) == plain
    table = nulls_table(result, "a")
    assert [str(row[1]) for row in table.rows] == [
        "the teacher, full training",
        *(NULL_NAMES[name] for name in NULLS),
    ]
    assert 'data-key="nulls/shuffled/skill_ci/all/1/-1"' in table.html()


def test_with_its_own_steps_the_teacher_is_trained_again_too(trained):
    surrogate, train, held_out = trained
    found = measure_nulls(surrogate, held_out, train, steps=2, progress=False)
    assert list(found) == ["teacher", *NULLS]
    measured = raptor.fidelity(surrogate, held_out, progress=False, options=FidelityOptions(linear_images=0))
    # As many steps of the same recipe on the same images: the same surrogate again.
    assert found["teacher"].r2.mean["all"] == measured.by_layer["r2"].mean["all"]
    again = measure_nulls(surrogate, held_out, train, steps=2, progress=False)
    assert again == found


def test_no_image_is_both_trained_and_measured_on(trained):
    surrogate, train, _ = trained
    with pytest.raises(DataError, match="both trained and measured on"):
        fidelity(surrogate, train, progress=False, options=FidelityOptions(nulls=True), train_images=train)


def test_mistakes_of_options(trained):
    surrogate, _, held_out = trained
    with pytest.raises(OptionError, match="pass train_images="):
        fidelity(surrogate, held_out, progress=False, options=FidelityOptions(nulls=True))
    with pytest.raises(OptionError, match="null_steps 0"):
        FidelityOptions(nulls=True, null_steps=0)
    with pytest.raises(OptionError, match="needs --nulls"):
        FidelityOptions(null_steps=3)
