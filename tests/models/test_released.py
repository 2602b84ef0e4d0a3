"""What the released code computes, written once more with torch's own modules, against our blocks, losses and steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from raptor import load_model
from raptor.core.phases import Phases
from raptor.distillation.losses import TrajectoryLoss
from raptor.distillation.recipes import distillation_named
from raptor.distillation.stage_losses import blockwise_loss, end_to_end_loss
from raptor.errors import WeightsError
from raptor.models.released import load_released, translate
from raptor.models.vit import ViT, ViTConfig
from raptor.training.accelerate import LaunchOptions, TrainingAccelerator
from raptor.training.config import build_optimizers

WIDTH, HEADS = 16, 2
PHASES = Phases((2, 1))
CLS, REGISTER, PATCH = slice(0, 1), slice(1, 3), slice(3, None)


class ReleasedBlock(nn.Module):
    """The block under its released names: torch's attention, the gate first, three scales plus one."""

    def __init__(self):
        super().__init__()
        d = WIDTH
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, HEADS, batch_first=True)
        self.ls1, self.ls2 = (nn.ParameterDict({"gamma": torch.ones(d)}) for _ in range(2))
        self.mlp = nn.ModuleList([nn.Linear(d, 8 * d), nn.Identity(), nn.Linear(4 * d, d)])
        self.t_proj = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 3 * d))

    def forward(self, x, target):
        """Make the layer `target`."""
        first, second, whole = (1 + self.t_proj(torch.full((len(x), 1), float(target))))[:, None].chunk(3, dim=-1)
        h = self.norm1(x)
        x = x + first * self.ls1["gamma"] * self.attn(h, h, h)[0]
        gate, value = self.mlp[0](self.norm2(x)).chunk(2, dim=-1)
        return whole * (x + second * self.ls2["gamma"] * self.mlp[2](F.silu(gate) * value))


def released_blocks():
    blocks = nn.ModuleList(ReleasedBlock() for _ in PHASES.lengths)
    with torch.no_grad():
        for parameter in blocks.parameters():
            parameter.copy_(0.2 * torch.randn_like(parameter))
    return nn.ModuleDict({"blocks": blocks})


@pytest.fixture
def pair():
    """The released model and ours with its weights, and states to learn."""
    torch.manual_seed(0)
    config = ViTConfig(image_size=16, patch_size=4, depth=3, width=WIDTH, heads=HEADS, n_register=2, n_classes=5)
    teacher = load_model(ViT(config))
    theirs = released_blocks()
    truth = 3 * torch.randn(6, 1 + PHASES.depth, teacher.layout.n_tokens, WIDTH)  # so large that gradients are clipped
    return theirs, load_released(theirs.state_dict(), teacher, PHASES), truth


def weighted(predicted, wanted, cls, register, patch):
    """Mean squared error of each token group, weighed."""
    parts = {"cls": (CLS, cls), "register": (REGISTER, register), "patch": (PATCH, patch)}
    return sum(w * F.mse_loss(predicted[:, where], wanted[:, where]) for where, w in parts.values())


def released_stage_1(model, truth, forcing):
    """Each block from the true input of its phase: one-step predictions and its own rollout, weighed."""
    total = 0.0
    for j, (block, span) in enumerate(zip(model["blocks"], PHASES.ranges, strict=True)):
        last = j == PHASES.k - 1
        error = (lambda a, b: weighted(a, b, 0.34, 0.33, 0.33)) if last else F.mse_loss
        forced = sum(error(block(truth[:, n - 1], n), truth[:, n]) for n in span) / len(span)
        x, rolled = truth[:, span[0] - 1], 0.0
        for n in span:
            x = block(x, n)
            rolled = rolled + error(x, truth[:, n]) / len(span)
        total = total + forcing * forced + (1 - forcing) * rolled
    return total


def released_stage_2(model, truth):
    """Rolled out from layer 0 with cls .45, registers .10, patches .45 on all layers."""
    x, total = truth[:, 0], 0.0
    for n in range(1, PHASES.depth + 1):
        x = model["blocks"][PHASES.block_of(n)](x, n)
        total = total + weighted(x, truth[:, n], 0.45, 0.10, 0.45) / PHASES.depth
    return total


def test_the_block_is_the_released_one(pair):
    theirs, ours, _ = pair
    x = torch.randn(3, 23, WIDTH)
    for n in range(1, PHASES.depth + 1):
        with torch.no_grad():
            wanted = theirs["blocks"][PHASES.block_of(n)](x, n)
            torch.testing.assert_close(ours.step(x, n - 1), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("forcing", [1.0, 0.6, 0.0])
def test_the_step_of_stage_1_is_the_released_one(pair, forcing):
    theirs, ours, truth = pair
    recipe = distillation_named("released", steps=1000)
    losses = [TrajectoryLoss(), TrajectoryLoss(recipe.last_weights)]
    found = blockwise_loss(ours.raptor, truth, ours.layout, losses, forcing)
    check_step(theirs, ours, recipe.blockwise, released_stage_1(theirs, truth, forcing), found, blockwise=True)


def test_the_step_of_stage_2_is_the_released_one(pair):
    theirs, ours, truth = pair
    recipe = distillation_named("released", steps=1000)
    found = end_to_end_loss(ours.raptor, truth, ours.layout, TrajectoryLoss(recipe.end_to_end_weights))
    check_step(theirs, ours, recipe.end_to_end, released_stage_2(theirs, truth), found, blockwise=False)


def check_step(theirs, ours, recipe, wanted, found, blockwise):
    """Same loss, same gradients, and the same weights after clipping and AdamW."""
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    wanted.backward()
    accelerator = TrainingAccelerator(
        ours.raptor, lambda *_: (found, {}), build_optimizers(ours.raptor, recipe), LaunchOptions(), 64
    )
    accelerator.gradient(iter([None]), 0)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=3e-4, weight_decay=1e-4)
    for part in theirs["blocks"] if blockwise else [theirs["blocks"]]:
        assert nn.utils.clip_grad_norm_(part.parameters(), recipe.clip) > recipe.clip  # there is something to clip
    accelerator.update(list(ours.raptor.blocks) if blockwise else [ours.raptor], recipe.clip)
    gradients = translate({name: parameter.grad for name, parameter in theirs.named_parameters()})
    for name, parameter in ours.raptor.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-5, atol=1e-6)
    optimizer.step()
    again = load_released(theirs.state_dict(), ours.teacher, PHASES).raptor.state_dict()
    for name, parameter in ours.raptor.state_dict().items():
        torch.testing.assert_close(parameter, again[name], rtol=1e-5, atol=1e-5)


def test_a_file_is_read_and_another_is_named(pair, tmp_path):
    theirs, ours, _ = pair
    torch.save(theirs.state_dict(), tmp_path / "raptor.pth")
    again = load_released(tmp_path / "raptor.pth", ours.teacher, PHASES)
    for name, parameter in ours.raptor.state_dict().items():
        assert torch.equal(parameter, again.raptor.state_dict()[name])
    with pytest.raises(WeightsError, match="not a surrogate"):
        load_released({"weight": torch.zeros(2)}, ours.teacher, PHASES)
    with pytest.raises(WeightsError, match=r"blocks\.2"):
        load_released(tmp_path / "raptor.pth", ours.teacher, Phases((1, 1, 1)))
