"""Losses of both stages against their definitions, batched against looped; relaxed and untied blocks under them."""

from __future__ import annotations

import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.core.tokens import TokenLayout
from raptor.distillation.losses import TrajectoryLoss, class_divergence, measure_state_variance
from raptor.distillation.stage_losses import blockwise_loss, end_to_end_loss
from raptor.errors import DataError, OptionError
from raptor.models.complexity import count_parameters
from raptor.models.surrogate import Surrogate, build_raptor, build_surrogate
from raptor.models.vit import ViT, ViTConfig

LAYOUT = TokenLayout(n_cls=1, n_register=2, grid=(2, 2))
PHASES = Phases((2, 3))


def states(seed, layers=3, images=5):
    return torch.randn(images, layers, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_plain_loss_is_the_mean_squared_error():
    predicted, truth = states(0), states(1)
    found = TrajectoryLoss()(predicted, truth, LAYOUT)
    expected = torch.stack([torch.nn.functional.mse_loss(predicted[:, n], truth[:, n]) for n in range(3)])
    torch.testing.assert_close(found, expected)


def test_weights_are_of_group_means_and_shared_where_a_group_is_lacking():
    predicted, truth = states(0), states(1)
    error = (predicted - truth).square().mean(dim=(0, 3))  # layers, tokens
    groups = {"cls": error[:, :1], "register": error[:, 1:3], "patch": error[:, 3:]}
    weights = {"cls": 0.45, "register": 0.1, "patch": 0.45}
    expected = sum(weights[name] * groups[name].mean(dim=1) for name in groups)
    torch.testing.assert_close(TrajectoryLoss(weights)(predicted, truth, LAYOUT), expected)
    bare = TokenLayout(n_cls=1, n_register=0, grid=(2, 3))
    expected = (error[:, :1].mean(dim=1) + error[:, 1:].mean(dim=1)) / 2
    torch.testing.assert_close(TrajectoryLoss(weights)(predicted, truth, bare), expected)


def test_the_normalised_loss_is_one_minus_r2_and_blind_to_scale():
    predicted, truth = states(0), states(1)
    variance = {"all": (truth - truth.mean(dim=0)).square().mean(dim=(0, 2, 3))}
    expected = (predicted - truth).square().sum(dim=(0, 2, 3))
    expected = expected / (truth - truth.mean(dim=0)).square().sum(dim=(0, 2, 3))
    torch.testing.assert_close(TrajectoryLoss()(predicted, truth, LAYOUT, variance), expected)
    larger = {"all": 900 * variance["all"]}
    torch.testing.assert_close(TrajectoryLoss()(30 * predicted, 30 * truth, LAYOUT, larger), expected)


def test_the_divergence_of_classes_is_that_of_kullback_and_leibler():
    predicted, truth = states(0)[:, 0], states(1)[:, 0]

    def head(tokens):
        return tokens[:, 0, :4]

    p, q = (head(tokens).exp() / head(tokens).exp().sum(dim=1, keepdim=True) for tokens in (truth, predicted))
    torch.testing.assert_close(class_divergence(head, predicted, truth), (p * (p / q).log()).sum() / 5)
    assert float(class_divergence(head, truth, truth)) == pytest.approx(0, abs=1e-12)


def test_wrong_weights_are_named():
    with pytest.raises(OptionError, match="cls, register, patch"):
        TrajectoryLoss({"window": 1.0})
    with pytest.raises(OptionError, match="no token group of this model"):
        TrajectoryLoss({"register": 1.0})(states(0), states(1), TokenLayout(1, 0, (2, 3)))


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    model = ViT(ViTConfig(depth=5, width=16, heads=2, image_size=16, n_register=2)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return raptor.load_model(model)


@pytest.fixture(scope="module")
def truth(teacher):
    pixels = torch.rand(3, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return raptor.rollout(teacher, teacher.embed(pixels)).states


def test_the_spread_of_states_is_their_variance_over_images(teacher, truth):
    pixels = torch.rand(3, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = measure_state_variance(teacher, pixels.split(2))  # of unequal batches
    by_token = truth[:, 1:].var(dim=0, correction=0).mean(dim=-1)
    torch.testing.assert_close(found["all"], by_token.mean(dim=1).float())
    for name, where in teacher.layout.slices.items():
        torch.testing.assert_close(found[name], by_token[:, where].mean(dim=1).float())
    torch.testing.assert_close(found["token"], by_token.float())
    with pytest.raises(DataError, match="two images"):
        measure_state_variance(teacher, pixels[:1].split(1))


def test_a_position_that_hardly_depends_on_the_image_has_the_least_variance(teacher, truth, monkeypatch):
    monkeypatch.setattr("raptor.distillation.losses.FLOOR", 0.02)
    pixels = torch.rand(3, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    by_token = truth[:, 1:].var(dim=0, correction=0).mean(dim=-1)
    floor = 0.02 * truth[:, 1:].square().mean(dim=(0, 3))
    assert 0 < (by_token < floor).sum() < by_token.numel()  # cls and registers at some layers
    found = measure_state_variance(teacher, pixels.split(2))
    torch.testing.assert_close(found["token"], torch.maximum(by_token, floor).float())


def test_layers_count_alike_when_losses_are_normalised(teacher, truth):
    """Each phase gets the spread of its own layers, each stage that of all."""
    model = scrambled_surrogate(teacher).raptor
    variance = {name: torch.arange(1.0, 6.0) for name in ("all", *teacher.layout.slices)}
    plain = TrajectoryLoss()
    expected = 0.0
    for span in PHASES.ranges:
        errors = [(model.step(truth[:, n - 1], n - 1) - truth[:, n]).square().mean() / n for n in span]
        expected = expected + sum(errors) / len(errors)
    torch.testing.assert_close(blockwise_loss(model, truth, teacher.layout, [plain, plain], 1.0, variance), expected)
    rolled = raptor.rollout(scrambled_surrogate(teacher), truth[:, 0]).states
    errors = (rolled[:, 1:] - truth[:, 1:]).square().mean(dim=(0, 2, 3)) / torch.arange(1.0, 6.0)
    torch.testing.assert_close(end_to_end_loss(model, truth, teacher.layout, plain, variance), errors.mean())


def scrambled_surrogate(teacher, kind="swiglu", phases=PHASES):
    torch.manual_seed(1)
    options = {"layer_scale": 0.5} if kind == "swiglu" else {}
    surrogate = build_surrogate(teacher, phases, kind, **options).double()
    with torch.no_grad():
        for parameter in surrogate.raptor.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return surrogate


@pytest.mark.parametrize("kind", ["swiglu", "gelu", "teacher"])
def test_teacher_forcing_in_one_call_equals_layer_by_layer(teacher, truth, kind):
    model = scrambled_surrogate(teacher, kind).raptor
    plain = TrajectoryLoss()
    found = blockwise_loss(model, truth, teacher.layout, [plain, plain], forcing=1.0)
    expected = 0.0
    for span in PHASES.ranges:
        steps = [(model.step(truth[:, layer - 1], layer - 1) - truth[:, layer]).square().mean() for layer in span]
        expected = expected + sum(steps) / len(steps)
    torch.testing.assert_close(found, expected)


def test_the_rollout_of_a_phase_starts_at_the_truth_and_goes_on_alone(teacher, truth):
    model = scrambled_surrogate(teacher).raptor
    plain = TrajectoryLoss()
    expected = 0.0
    for span in PHASES.ranges:
        tokens, errors = truth[:, span[0] - 1], []
        for layer in span:
            tokens = model.step(tokens, layer - 1)
            errors.append((tokens - truth[:, layer]).square().mean())
        expected = expected + sum(errors) / len(errors)
    torch.testing.assert_close(blockwise_loss(model, truth, teacher.layout, [plain, plain], forcing=0.0), expected)
    mixed = blockwise_loss(model, truth, teacher.layout, [plain, plain], forcing=0.3)
    forced = blockwise_loss(model, truth, teacher.layout, [plain, plain], forcing=1.0)
    torch.testing.assert_close(mixed, 0.3 * forced + 0.7 * expected)


def test_stage_two_rolls_out_from_layer_0(teacher, truth):
    surrogate = scrambled_surrogate(teacher)
    rolled = raptor.rollout(surrogate, truth[:, 0]).states
    expected = (rolled[:, 1:] - truth[:, 1:]).square().mean()
    torch.testing.assert_close(end_to_end_loss(surrogate.raptor, truth, teacher.layout, TrajectoryLoss()), expected)


@pytest.mark.parametrize("kind", ["swiglu", "teacher"])
def test_gradients_reach_every_block_and_nothing_of_the_teacher(teacher, truth, kind):
    surrogate = scrambled_surrogate(teacher, kind)
    end_to_end_loss(surrogate.raptor, truth, teacher.layout, TrajectoryLoss()).backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in surrogate.raptor.parameters())
    assert all(parameter.grad is None for parameter in surrogate.teacher.parameters())


@pytest.mark.parametrize("kind", ["teacher", "swiglu"])
def test_a_relaxed_block_starts_tied_and_each_layer_learns_its_own(teacher, truth, kind):
    torch.manual_seed(1)
    options = {"layer_scale": 0.5} if kind == "swiglu" else {}
    tied = build_surrogate(teacher, PHASES, kind, **options).double()
    torch.manual_seed(1)
    relaxed = Surrogate(teacher, build_raptor(teacher, PHASES, kind, relax_rank=2, **options)).double()  # not started
    own = {name: value for name, value in relaxed.raptor.named_parameters() if name.endswith((".up", ".down"))}
    shared = [value for name, value in relaxed.raptor.named_parameters() if name not in own and ".offsets." not in name]
    with torch.no_grad():
        for a, b in zip(shared, tied.raptor.parameters(), strict=True):
            a.copy_(b)
    tokens = truth[:, 0]
    for layer in range(5):
        torch.testing.assert_close(relaxed.step(tokens, layer), tied.step(tokens, layer))
    with torch.no_grad():
        for name, value in own.items():
            if name.startswith("blocks.1.") and name.endswith(".up"):
                value[1].normal_()  # the second layer of the second phase: layer 4
    same = [torch.allclose(relaxed.step(tokens, layer), tied.step(tokens, layer)) for layer in range(5)]
    assert same == [True, True, True, False, True]
    plain = TrajectoryLoss()
    found = blockwise_loss(relaxed.raptor, truth, teacher.layout, [plain, plain], forcing=1.0)
    expected = 0.0
    for span in PHASES.ranges:
        steps = [(relaxed.step(truth[:, n - 1], n - 1) - truth[:, n]).square().mean() for n in span]
        expected = expected + sum(steps) / len(steps)
    torch.testing.assert_close(found, expected)
    # r (inputs + outputs) parameters a layer and linear map.
    maps = {"teacher": [(16, 48), (16, 16), (16, 64), (64, 16)], "swiglu": [(16, 48), (16, 16), (16, 128), (64, 16)]}
    assert sum(value.numel() for value in own.values()) == 5 * 2 * sum(a + b for a, b in maps[kind])


def test_the_untied_control_is_k_layers_at_the_ends_of_phases(teacher, truth):
    torch.manual_seed(1)
    control = build_surrogate(teacher, PHASES, "teacher", untied=True)
    first = control.step(truth[:, 0], 1)
    rolled = raptor.rollout(control, truth[:, 0]).states
    assert torch.equal(rolled[:, 1], truth[:, 0])
    assert torch.equal(rolled[:, 2], first)
    assert torch.equal(rolled[:, 4], first)
    assert torch.equal(rolled[:, 5], control.step(first, 4))
    ends = (rolled[:, [2, 5]] - truth[:, [2, 5]]).square().mean()
    torch.testing.assert_close(end_to_end_loss(control.raptor, truth, teacher.layout, TrajectoryLoss()), ends)
    alone = [(control.step(truth[:, a], b - 1) - truth[:, b]).square().mean() for a, b in ((0, 2), (2, 5))]
    plain = TrajectoryLoss()
    torch.testing.assert_close(blockwise_loss(control.raptor, truth, teacher.layout, [plain] * 2, 0.5), sum(alone))
    tied = build_surrogate(teacher, PHASES, "teacher")
    assert count_parameters(control.raptor) == count_parameters(tied.raptor)


def kept_bytes():
    """Count what a loss of either stage keeps for its gradient."""
    found = {}

    def keep(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    return found, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)


@pytest.mark.parametrize("kind", ["swiglu", "teacher"])
@pytest.mark.parametrize("stage", ["blockwise", "end_to_end"])
def test_recomputing_gives_the_same_gradients_from_less_memory(teacher, truth, kind, stage):
    model, plain = scrambled_surrogate(teacher, kind).raptor, TrajectoryLoss()
    gradients, kept = [], []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        model.zero_grad()
        found, hooks = kept_bytes()
        with hooks:
            loss = (
                blockwise_loss(model, truth, teacher.layout, [plain, plain], 0.5)
                if stage == "blockwise"
                else end_to_end_loss(model, truth, teacher.layout, plain)
            )
        loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        kept.append(sum(found.values()))
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)
    assert kept[1] < kept[0] / 2


def test_the_loss_on_classes_is_added_to_that_on_states_with_its_weight(teacher, truth):
    raptor_, loss = build_raptor(teacher, PHASES, "teacher"), TrajectoryLoss()
    states_alone = end_to_end_loss(raptor_, truth, teacher.layout, loss)
    last = truth[:, 0]
    for layer in range(teacher.depth):
        last = raptor_.step(last, layer)
    expected = states_alone + 0.3 * class_divergence(teacher.head, last, truth[:, -1])
    found = end_to_end_loss(raptor_, truth, teacher.layout, loss, head=teacher.head, head_weight=0.3)
    torch.testing.assert_close(found, expected)
    assert torch.equal(end_to_end_loss(raptor_, truth, teacher.layout, loss, head=teacher.head), states_alone)
