"""Linear baselines: exact on linear flows, equal to least squares in memory, and never fitted on what is evaluated."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import raptor
from raptor.core.batches import Batch, as_image_set
from raptor.core.deserialize import from_plain
from raptor.core.phases import Phases
from raptor.core.serialize import to_json
from raptor.data.load import load_images
from raptor.errors import OptionError
from raptor.evaluation.affine import AffineFit, fit_maps
from raptor.evaluation.evaluate import FidelityResult, fidelity
from raptor.evaluation.linear import NAMES, linear_baselines, take
from raptor.evaluation.options import FidelityOptions
from raptor.evaluation.tables import linear as linear_table
from raptor.models.load import load_model
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig

PHASES = Phases((2, 3))


def images(n=24):
    return torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(
    "flow", [raptor.toy.Diagonal(5, [1.1, 0.9, 0.8, 1.2, 0.7, 1.0, 0.5, 0.6]), raptor.toy.Rotation([0.3] * 5)]
)
def test_a_linear_flow_is_fitted_exactly(flow):
    found = linear_baselines(flow, flow, as_image_set(images().split(4)), PHASES)
    for name in ("operator", "endpoint", "raptor"):
        np.testing.assert_allclose(getattr(found, name).r2.mean["all"], 1, atol=1e-6)
        assert getattr(found, name).top1 is None
    assert max(found.identity.r2.mean["all"]) < 1
    assert (found.fit_images, found.n) == (12, 12)


def test_steps_that_differ_need_one_map_for_each():
    """Angles that differ within a phase: no single operator has them, but one map to the end does."""
    flow = raptor.toy.Rotation([0.1, 0.9, 0.3, 0.3, 0.3])
    found = linear_baselines(flow, flow, as_image_set(images().split(4)), PHASES)
    assert found.operator.r2.mean["all"][0] < 1 - 1e-4
    assert found.endpoint.r2.mean["all"][0] == pytest.approx(1, abs=1e-6)
    assert found.operator.r2.mean["all"][1] == pytest.approx(1, abs=1e-6)


def test_streamed_least_squares_equal_those_in_memory():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 6)) @ draw.normal(size=(6, 6)) + 50
    z = np.tanh(x - 50) + draw.normal(size=(200, 6))
    fit = AffineFit(torch.from_numpy(x[0]))
    for part in np.array_split(np.arange(200), 7):
        fit.add(torch.from_numpy(x[part]), torch.from_numpy(z[part]))
    found = fit.solve(ridge=0.0)
    weights = np.linalg.lstsq(np.column_stack([x, np.ones(200)]), z, rcond=None)[0]
    np.testing.assert_allclose(found.weight.numpy(), weights[:-1], atol=1e-9)
    np.testing.assert_allclose(found.constant.numpy(), weights[-1], atol=1e-7)
    np.testing.assert_allclose(fit.solve().weight.numpy(), weights[:-1], atol=1e-7)  # the ridge does not show


def test_inputs_that_are_all_equal_give_the_mean():
    fit = AffineFit(torch.zeros(3))
    fit.add(torch.ones(5, 3), torch.arange(15.0).reshape(5, 3))
    torch.testing.assert_close(fit.solve()(torch.ones(1, 3)), torch.tensor([[6.0, 7.0, 8.0]]))


def vit():
    torch.manual_seed(0)
    teacher = load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))
    return build_surrogate(teacher, Phases((1, 3)))


def test_r2_and_accuracy_equal_those_in_memory():
    surrogate = vit()
    teacher = surrogate.teacher
    sets = load_images("scenes", teacher, "test", 24, batch_size=5)
    fitted, evaluated = sets.fit_eval_split()
    maps, n = fit_maps(teacher, fitted, surrogate.phases)
    found = linear_baselines(teacher, surrogate, sets, surrogate.phases, accuracy=True)
    assert (n, found.n) == (12, 12)
    batches = list(evaluated)
    pixels, label = torch.cat([one.pixels for one in batches]), torch.cat([one.label for one in batches])
    with torch.no_grad():
        states = raptor.rollout(teacher, teacher.embed(pixels)).states
        for phase, one in enumerate(maps):
            truth = states[:, one.last].double()
            for name, guess in one.predictions(surrogate, states[:, one.first]).items():
                expected = 1 - (truth - guess).square().sum() / (truth - truth.mean(dim=0)).square().sum()
                score = getattr(found, name)
                assert score.r2.mean["all"][phase] == pytest.approx(expected.item(), abs=1e-5)
                last = raptor.rollout(teacher, guess, one.last).states[:, -1]
                right = (teacher.head(last).argmax(dim=1) == label).double().mean()
                assert score.top1.value[phase] == pytest.approx(right.item())
                assert score.top1.low[phase] <= score.top1.value[phase] <= score.top1.high[phase]


def test_the_batch_size_does_not_matter():
    surrogate = vit()
    first, second = (
        linear_baselines(
            surrogate.teacher, surrogate, load_images("scenes", surrogate.teacher, "test", 24, batch_size=size),
            surrogate.phases,
        )
        for size in (5, 12)
    )  # fmt: skip
    for name in NAMES:
        np.testing.assert_allclose(
            getattr(first, name).r2.mean["patch"], getattr(second, name).r2.mean["patch"], atol=1e-5
        )


def test_maps_are_not_fitted_on_images_that_they_are_evaluated_on(monkeypatch):
    """With noise as states, a map fitted on the evaluated images would explain them; one of other images does not."""

    class Noise(raptor.toy.Rotation):
        def step(self, tokens, layer):
            seeds = (tokens.sum(dim=(1, 2)) * 1e6).long()
            made = [torch.randn(tokens.shape[1:], generator=torch.Generator().manual_seed(int(s))) for s in seeds]
            return torch.stack(made).to(tokens)

    few = as_image_set(images(4).split(1))  # 2 x 19 tokens to fit 8 x 9 numbers
    found = linear_baselines(Noise([0.1] * 5), Noise([0.1] * 5), few, PHASES)
    assert max(found.endpoint.r2.mean["all"]) < 0
    assert found.raptor.r2.mean["all"] == [1, 1]


def test_the_number_of_images_is_bounded():
    surrogate = vit()
    sets = load_images("scenes", surrogate.teacher, "test", 20, batch_size=8)
    assert len(take(sets, 6)) == 6
    assert [len(one) for one in take(as_image_set(images(20).split(8)), 10)] == [8, 2]
    assert len(take(as_image_set(images(3).split(8)), 10)) == 3
    labelled = Batch(images(4), torch.arange(4), None, None, [""] * 4)
    assert next(iter(take(as_image_set([labelled]), 2))).label.tolist() == [0, 1]


def test_it_is_part_of_the_result_and_is_read_back():
    surrogate = vit()
    sets = load_images("scenes", surrogate.teacher, "test", 16, batch_size=8)
    result = fidelity(surrogate, sets, progress=False, options=FidelityOptions(linear_images=12))
    assert (result.linear.fit_images, result.linear.n) == (6, 6)
    plain = json.loads(to_json(result))
    assert {"operator", "endpoint", "identity", "raptor"} <= set(plain["linear"])
    assert len(plain["linear"]["operator"]["r2"]["all"]) == 2
    assert len(plain["linear"]["operator"]["r2_ci"]["all"][0]) == 2
    assert len(plain["linear"]["identity"]["top1_ci"][1]) == 2
    again = from_plain(FidelityResult, plain)
    assert json.loads(to_json(again)) == plain
    assert again.linear.identity.top1.value == result.linear.identity.top1.value
    table = linear_table(result, "a", "fidelity/")
    assert len(table.rows) == 2 * 4
    assert 'data-key="fidelity/linear/operator/top1_ci/0/1"' in table.html()
    assert 'data-key="fidelity/linear/raptor/r2_ci/all/1/0"' in table.html()


def test_it_can_be_left_out_and_few_images_have_a_note():
    surrogate = vit()
    sets = load_images("scenes", surrogate.teacher, "test", 8, batch_size=8)
    without = fidelity(surrogate, sets, progress=False, options=FidelityOptions(linear_images=0))
    assert without.linear is None
    assert "linear" not in json.loads(to_json(without))
    assert from_plain(FidelityResult, json.loads(to_json(without))).linear is None
    few = fidelity(surrogate, sets.sample(3), progress=False)
    assert few.linear is None
    assert any("at least 4 images" in note for note in few.notes)
    some, more = (fidelity(surrogate, sets, progress=False, options=FidelityOptions(linear_images=n)) for n in (4, 6))
    assert any("may overfit: 132 tokens" in note for note in some.notes)
    assert not more.notes  # 3 x 66 tokens for width 16
    with pytest.raises(OptionError, match="linear_images -1"):
        FidelityOptions(linear_images=-1)
