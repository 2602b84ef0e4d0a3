"""Layer experiments: orders that are what they say, matched controls, and models whose answers are known."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch

import raptor
from raptor.core import toy
from raptor.core.flow import ReorderedFlow
from raptor.core.phases import Phases
from raptor.errors import LayerError
from raptor.interventions.intervene import intervene, matched_orders
from raptor.interventions.options import InterveneOptions
from raptor.interventions.orders import interchange, paired, repeat, replace, runs, skip
from raptor.models.vit import ViT, ViTConfig
from vits import pixels

PHASES = Phases((4, 3, 5))


def test_orders_by_hand():
    assert replace(5, [(1, 3)]) == [0, 3, 2, 3, 4]
    assert interchange(5, [(1, 3)]) == [0, 3, 2, 1, 4]
    assert skip(5, [1, 2]) == [0, 3, 4]
    assert repeat(5, [1, 2]) == [0, 1, 2, 1, 2, 3, 4]
    flow = toy.Rotation([0.1] * 5)
    assert ReorderedFlow(flow, [0, 3, 2, 1, 4]).unchanged == 1
    assert ReorderedFlow(flow, [0, 1, 2, 1, 2, 3, 4]).unchanged == 3
    with pytest.raises(LayerError):
        ReorderedFlow(flow, [0, 5])


def changed(order):
    return [(layer, step) for layer, step in enumerate(order) if layer != step]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("make", [replace, interchange])
def test_orders_within_and_across_phases_have_the_same_distances(make, n):
    found = paired(make, PHASES, n, most=8)
    assert len(found.intra) == len(found.inter) == len(set(found.intra)) == 8
    of = [PHASES.block_of(layer + 1) for layer in range(12)]
    distances = []
    for orders, within in ((found.intra, True), (found.inter, False)):
        for order in orders:
            assert all((of[a] == of[b]) == within for a, b in changed(order))
            assert len(changed(order)) == (2 * n if make is interchange else n)
        distances.append(Counter(abs(a - b) for order in orders for a, b in changed(order)))
    assert distances[0] == distances[1]


def test_runs_are_of_one_phase_or_of_two():
    found = runs(skip, PHASES, 2)
    assert (len(found.intra), len(found.inter)) == (3 + 2 + 4, 2)
    assert runs(repeat, PHASES, 1).inter == ()


def tied_vit(phases):
    """Layers of a phase are equal; nothing tells a block its layer."""
    torch.manual_seed(0)
    model = ViT(
        ViTConfig(image_size=16, patch_size=4, depth=phases.depth, width=16, heads=2, n_register=1, n_classes=4)
    )
    with torch.no_grad():
        for span in phases.ranges:
            for parameter in model.blocks[span[0] - 1].parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
            for layer in span[1:]:
                model.blocks[layer - 1] = copy.deepcopy(model.blocks[span[0] - 1])
    return raptor.load_model(model)


def test_interchanging_tied_layers_changes_nothing_and_across_phases_it_does():
    phases = Phases((3, 3, 2))
    teacher = tied_vit(phases)
    before = {name: value.clone() for name, value in teacher.module.state_dict().items()}
    images = [pixels(16, 16, batch=6)]
    result = intervene(teacher, images, phases)
    found, own = result.experiments, result.untouched
    tokens = teacher.embed(images[0])
    truth = raptor.rollout(teacher, tokens).at(8)
    for n in (1, 2, 3):
        for name in ("interchange", "replace"):
            for order in matched_orders(phases, 8)[name][n].intra:
                assert torch.equal(raptor.rollout(ReorderedFlow(teacher, order), tokens).at(8), truth)
            contrast = found[name][n]
            if contrast.intra is not None:
                assert contrast.intra.cosine.value == pytest.approx(1.0, abs=1e-6)
                assert contrast.inter.cosine.value < 0.999
                assert contrast.difference.value > 0
                assert contrast.difference.low <= contrast.difference.value <= contrast.difference.high
    assert found["interchange"][1].intra is not None
    assert own.cosine.value == pytest.approx(1.0, abs=1e-6)
    for name, value in teacher.module.state_dict().items():
        assert torch.equal(value, before[name])


def test_rotations_in_closed_form():
    """Angles add up in any order: interchanging does nothing, skipping a layer turns back by its angle."""
    flow = toy.Rotation([0.1, 0.2, 0.3, 0.4])
    result = intervene(flow, [pixels(32, 32, batch=5).double()], "2-2")
    found, own = result.experiments, result.untouched
    assert (str(result.phases), result.measure, own.score.n) == ("2-2", "cosine", 5)
    assert found["interchange"][1].inter.score.value == pytest.approx(1.0)
    expected = torch.tensor([0.1, 0.2, 0.3, 0.4]).cos().mean().item()
    assert found["skip"][1].intra.score.value == pytest.approx(expected)
    assert found["repeat"][1].intra.score.value == pytest.approx(expected)
    assert found["skip"][1].inter is None
    assert found["skip"][2].inter.score.value == pytest.approx(torch.tensor(0.5).cos().item())
    assert found["skip"][1].intra.orders == 4
    assert own.score.value == pytest.approx(1.0)


def test_accuracy_is_measured_where_there_are_labels():
    teacher = raptor.load_model("scenes")
    images = raptor.load_images("scenes:test", teacher, images=8, batch_size=8)
    result = intervene(teacher, images, Phases((5, 5, 2)), InterveneOptions(most=1, matrix_images=0))
    found, own = result.experiments, result.untouched
    assert result.measure == "accuracy"
    (batch,) = images
    with torch.no_grad():
        right = teacher.head(raptor.rollout(teacher, teacher.embed(batch.pixels)).at(12)).argmax(dim=1) == batch.label
    assert own.score.value == pytest.approx(right.float().mean().item())
    assert own.cosine.value == pytest.approx(1.0, abs=1e-5)
    assert 0 <= found["skip"][3].inter.score.value <= own.score.value + 0.2


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.long)])
def test_where_one_batch_has_no_labels_the_cosine_of_all_is_measured(first):
    teacher = tied_vit(Phases((3, 3, 2)))
    labelled = next(iter(raptor.load_images("scenes:test", teacher, images=4)))
    one = InterveneOptions(most=1, matrix_images=1)
    found = intervene(teacher, [labelled, labelled.pixels][:: 1 - 2 * first], "3-3-2", one)
    assert found == intervene(teacher, [labelled.pixels] * 2, "3-3-2", one)
    assert found.measure == "cosine"


def test_an_experiment_starts_where_it_changes_something():
    calls = []

    class Counted(toy.Rotation):
        def step(self, tokens, layer):
            calls.append(layer)
            return super().step(tokens, layer)

    intervene(Counted([0.1] * 4), [pixels(32, 32, batch=2)], Phases((2, 2)), InterveneOptions(most=2, matrix_images=0))
    orders = {
        order
        for by_n in matched_orders(Phases((2, 2)), 2).values()
        for c in by_n.values()
        for order in c.intra + c.inter
    }
    flow = toy.Rotation([0.1] * 4)
    assert len(calls) == 4 + sum(len(order) - ReorderedFlow(flow, order).unchanged for order in orders)


def test_old_calls_work_and_warn():
    flow, images = toy.Rotation([0.1] * 4), [pixels(32, 32, batch=2)]
    with pytest.warns(FutureWarning, match="InterveneOptions\\(most=...\\)"):
        result = intervene(flow, images, Phases((2, 2)), most=2)
    with pytest.warns(FutureWarning, match="unpacking"):
        found, own = result
    assert (found, own) == (result.experiments, result.untouched)
