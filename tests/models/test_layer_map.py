"""Layer maps: assignments of layers to blocks that need not be contiguous, of which phases are the contiguous case."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import raptor
from raptor.core.deserialize import from_plain
from raptor.core.flow import rollout
from raptor.core.phases import LayerMap, Phases, layer_map, shuffled_map
from raptor.core.serialize import to_plain
from raptor.data.load import load_images
from raptor.distillation.distill import train_surrogate
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.losses import TrajectoryLoss
from raptor.distillation.saving import save_surrogate
from raptor.distillation.stage_losses import blockwise_loss, roll
from raptor.errors import OptionError, PhaseError, UnsupportedModelError
from raptor.evaluation.description_length import levin_bits
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.checkpoints import save_vit
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.phases.function.training_free import fit_surrogate
from raptor.training.config import TrainConfig

MAP = Phases.parse("1,2,1,1,3,2")
BLOCKS = [0, 1, 0, 0, 2, 1]  # by layer


def teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(ViTConfig(depth=6, width=16, heads=2, n_register=1)))


def trajectory(flow, n=3):
    pixels = torch.randn(n, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    return rollout(flow, flow.embed(pixels)).states


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_every_layer_has_the_block_that_was_given(blocks):
    found = layer_map(blocks)
    of = [found.block_of(layer) for layer in range(1, len(blocks) + 1)]
    assert len(set(zip(of, blocks, strict=True))) == len(set(of)) == len(set(blocks)) == found.k
    assert [layer for own in found.layers for layer in own if of[layer - 1] != of[own[0] - 1]] == []
    assert sorted(layer for own in found.layers for layer in own) == list(range(1, len(blocks) + 1))
    assert Phases.parse(str(found)) == found == from_plain(Phases, to_plain(found))
    contiguous = all(list(own) == list(range(own[0], own[-1] + 1)) for own in found.layers)
    assert isinstance(found, LayerMap) is not contiguous


def test_a_contiguous_map_is_phases():
    assert Phases.parse("1,1,1,2,2,3") == layer_map([7, 7, 7, 2, 2, 4]) == Phases((3, 2, 1))
    assert type(layer_map([0, 0, 1])) is Phases
    assert (MAP.k, MAP.depth, MAP.lengths, MAP.layers) == (3, 6, (1, 1, 2, 1, 1), ((1, 3, 4), (2, 6), (5,)))
    for lengths, blocks in (((1, 1), (0,)), ((1, 1, 1), (0, 2, 0)), ((1, 1), (1, 1))):
        with pytest.raises(PhaseError, match="numbered from 0"):
            LayerMap(lengths, blocks)
    with pytest.raises(PhaseError, match="such as 7-3-2"):
        Phases.parse("1,2-3")


@pytest.mark.parametrize("lengths", [(2, 2), (3, 1), (2, 2, 1)])
def test_shuffled_maps_are_uniform_over_all_that_are_not_contiguous(lengths):
    phases = Phases(lengths)
    layers = [phases.block_of(layer) for layer in range(1, phases.depth + 1)]
    possible = {found for one in permutations(layers) if isinstance(found := layer_map(one), LayerMap)}
    n = 300 * len(possible)
    drawn = Counter(shuffled_map(phases, seed) for seed in range(n))
    assert set(drawn) == possible
    chi2 = sum((count - 300) ** 2 / 300 for count in drawn.values())
    assert chi2 < 2 * len(possible) + 12
    for alone in (Phases((3,)), Phases((1, 1, 1))):
        with pytest.raises(PhaseError, match="not contiguous"):
            shuffled_map(alone, 0)


def test_a_rollout_is_the_loop_over_blocks():
    flow = teacher()
    surrogate = build_surrogate(flow, MAP)
    tokens = trajectory(flow)[:, 0]
    states = rollout(surrogate, tokens).states
    for layer, block in enumerate(BLOCKS, start=1):
        tokens = surrogate.raptor.blocks[block](tokens, layer)
        assert torch.equal(states[:, layer], tokens)


@pytest.mark.parametrize("forcing", [0.0, 0.3])
def test_the_loss_of_stage_1_is_the_mean_over_the_layers_of_each_block(forcing):
    flow = teacher()
    raptor_ = build_surrogate(flow, MAP).raptor
    truth, losses = trajectory(flow), [TrajectoryLoss()] * 3
    by_layer, forced, tokens = [], [], truth[:, 0]
    for layer, block in enumerate(BLOCKS, start=1):
        starts = layer == 1 or BLOCKS[layer - 2] != block
        tokens = raptor_.blocks[block](truth[:, layer - 1] if starts else tokens, layer)
        by_layer.append((tokens - truth[:, layer]).square().mean())
        forced.append((raptor_.blocks[block](truth[:, layer - 1], layer) - truth[:, layer]).square().mean())
    own = [[layer - 1 for layer in layers] for layers in MAP.layers]
    expected = sum(
        (1 - forcing) * sum(by_layer[i] for i in of) / len(of) + forcing * sum(forced[i] for i in of) / len(of)
        for of in own
    )
    torch.testing.assert_close(blockwise_loss(raptor_, truth, flow.layout, losses, forcing), expected)


def test_the_loss_of_contiguous_phases_is_bit_identical_to_one_block_after_another():
    flow = teacher()
    raptor_ = build_surrogate(flow, Phases((3, 2, 1))).raptor
    truth, loss = trajectory(flow), TrajectoryLoss()
    total = truth.new_zeros(())
    for block, span in zip(raptor_.blocks, raptor_.phases.ranges, strict=True):
        wanted = truth[:, span[0] : span[-1] + 1]
        forced = [block(truth[:, layer - 1], layer) for layer in span]
        total = total + 0.3 * loss(forced, wanted, flow.layout).mean()
        total = total + 0.7 * loss(roll(raptor_, truth[:, span[0] - 1], span), wanted, flow.layout).mean()
    assert torch.equal(blockwise_loss(raptor_, truth, flow.layout, [loss] * 3, 0.3), total)


def test_relaxed_at_full_rank_a_map_is_the_teacher():
    flow = teacher()
    relaxed = build_surrogate(flow, MAP, relax_rank=64)
    torch.testing.assert_close(trajectory(relaxed), trajectory(flow), rtol=1e-4, atol=1e-5)


def test_a_map_is_distilled_saved_reloaded_and_measured(tmp_path):
    flow = teacher()
    images = load_images("scenes", flow, "train", 24, batch_size=8)
    stage = TrainConfig(steps=3, batch_size=4, lr=1e-3, warmup=1)
    trained = train_surrogate(flow, images, str(MAP), Distillation(stage, stage))
    assert trained.phases == MAP
    save_surrogate(trained, tmp_path, "scenes", 0)
    loaded = raptor.load_model(tmp_path)
    assert loaded.module.phases == MAP
    torch.testing.assert_close(trajectory(loaded), trajectory(trained))
    assert not torch.allclose(trajectory(trained)[:, -1], trajectory(build_surrogate(flow, MAP))[:, -1])
    pixels = [batch.pixels for batch in images]
    found = trajectory_fidelity(flow, loaded, pixels, MAP)["skill"].mean["all"]
    ours, theirs = (rollout(one, one.embed(torch.cat(pixels))).states for one in (loaded, flow))
    moved = (theirs - theirs[:, :1]).square().sum(dim=(0, 2, 3))
    expected = 1 - (ours - theirs).square().sum(dim=(0, 2, 3))[1:] / moved[1:]
    torch.testing.assert_close(torch.tensor(found), expected.float(), rtol=1e-4, atol=1e-5)


def test_what_needs_contiguous_phases_says_so():
    flow = teacher()
    with pytest.raises(UnsupportedModelError, match="contiguous phases such as 7-3-2, not the layer map 1,2,1,1,3,2"):
        fit_surrogate(flow, load_images("scenes", flow, "train", 8), MAP)


def test_the_description_of_a_map_names_the_block_of_each_run():
    """Five runs of lengths 1, 1, 2, 1, 1 need 1 + 1 + 3 + 1 + 1 bits, and log2 3 bits each for their blocks."""
    assert levin_bits(10, MAP, 2**7, bits=8) == pytest.approx(80 + 7 + 5 * 1.584963 + 7)
    assert levin_bits(10, Phases((2, 1)), 2**7, bits=8) == 80 + 4 + 7


def tied_vit():
    torch.manual_seed(0)
    return ViT(ViTConfig(depth=6, width=16, heads=2, n_register=1, n_classes=5, pool="cls+patch", tied="3-2-1"))


def test_a_tied_vit_applies_the_same_modules_within_a_phase():
    vit = tied_vit()
    flow = raptor.load_model(vit)
    assert [id(block) for block in flow.parts.blocks] == [id(vit.blocks[at]) for at in (0, 0, 0, 1, 1, 2)]
    assert len(list(vit.blocks.parameters())) == 3 * len(list(vit.blocks[0].parameters()))
    states = trajectory(flow)
    tokens = states[:, 0]
    for layer, block in enumerate((0, 0, 0, 1, 1, 2), start=1):
        tokens = vit.blocks[block](tokens, None)
        assert torch.equal(states[:, layer], tokens)
    torch.testing.assert_close(
        flow.head(tokens), vit(torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1)))
    )
    # Blocks that are tied as the ViT's own reproduce it exactly, before any training.
    assert torch.equal(trajectory(build_surrogate(flow, Phases((3, 2, 1)))), states)


def test_a_tied_vit_is_saved_and_loaded_and_so_is_its_surrogate(tmp_path):
    vit = tied_vit().eval()
    flow = raptor.load_model(vit)
    save_vit(vit, flow.preprocessing, tmp_path / "vit")
    again = raptor.load_model(tmp_path / "vit")
    assert torch.equal(trajectory(again), trajectory(flow))
    assert (again.depth, len(again.module.blocks)) == (6, 3)
    surrogate = build_surrogate(flow, Phases((4, 2)))
    surrogate.record = {"kind": "teacher", "block": {}}
    save_surrogate(surrogate, tmp_path, "scenes", 0)
    torch.testing.assert_close(trajectory(raptor.load_model(tmp_path)), trajectory(surrogate))


@pytest.mark.parametrize("tied", ["3-2", "x"])
def test_wrong_ties_are_refused(tied):
    with pytest.raises((OptionError, PhaseError)):
        ViTConfig(depth=6, tied=tied)
