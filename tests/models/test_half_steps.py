"""Attention and MLP half-steps: two of them are the step of the model, exactly."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import raptor
from raptor.core.tokens import TokenLayout
from raptor.errors import OptionError, UnsupportedModelError
from raptor.models.half_steps import HalfStepModel
from raptor.models.teachers.teacher import Parts
from raptor.models.vit import ViT, ViTConfig
from vits import FAMILIES, pixels

SMALL = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=2, n_classes=5)


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_two_half_steps_are_the_step_in_every_family(case):
    teacher = raptor.load_model(case.build())
    halves = raptor.load_model(HalfStepModel(teacher), preprocessing=teacher.preprocessing)
    assert halves.depth == 2 * teacher.depth
    images = pixels(*teacher.image_size)
    with torch.no_grad():
        whole = raptor.rollout(teacher, teacher.embed(images)).states
        fine = raptor.rollout(halves, halves.embed(images)).states
        assert torch.equal(fine[:, ::2], whole)
        assert torch.equal(halves(images), teacher(images))
    assert not torch.equal(fine[:, 1], fine[:, 0])
    assert not torch.equal(fine[:, 1], fine[:, 2])


def test_the_halves_are_attention_and_mlp():
    torch.manual_seed(0)
    vit = ViT(SMALL).eval()
    halves = raptor.load_model(HalfStepModel(raptor.load_model(vit)))
    tokens = torch.randn(2, halves.layout.n_tokens, halves.width)
    with torch.no_grad():
        for layer, block in enumerate(vit.blocks):
            torch.testing.assert_close(halves.step(tokens, 2 * layer), tokens + block.attn(block.norm1(tokens)))
            torch.testing.assert_close(halves.step(tokens, 2 * layer + 1), tokens + block.mlp(block.norm2(tokens)))
        torch.testing.assert_close(halves.head(tokens), raptor.load_model(vit).head(tokens))


def test_half_steps_in_commands(call):
    code, out, err = call("phases", "half:scenes", "--images", 8, "--k", 3, "--device", "cpu", "--quiet", "--json")
    assert (code, err) == (0, "")
    assert '"layers": 24' in out
    for wrong in ("half:", "half:half:scenes"):
        code, _, err = call("inspect", wrong, "--device", "cpu")
        assert (code, err.count("\n")) == (2, 1)
        assert "half:MODEL" in err


class Parallel(nn.Module):
    """A block whose attention and MLP read the same tokens."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, tokens):
        """Add both to the tokens at once."""
        normed = self.norm(tokens)
        return tokens + self.mix(normed) + self.down(torch.relu(self.up(normed)))


class ParallelViT(nn.Module):
    """A ViT of parallel blocks."""

    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Conv2d(3, 8, 4, 4), nn.ModuleList(Parallel(8) for _ in range(2))


def test_blocks_without_halves_are_refused():
    raptor.register_adapter(
        ParallelViT,
        lambda model, size: Parts(
            "parallel", lambda x: model.embed(x).flatten(2).transpose(1, 2), model.blocks, nn.Identity(),
            TokenLayout(0, 0, (2, 2)), 8, 1, (8, 8), (4, 4),
        ),
    )  # fmt: skip
    teacher = raptor.load_model(ParallelViT(), preprocessing=raptor.Preprocessing((8, 8), None))
    with pytest.raises(UnsupportedModelError, match=r"cannot be cut into half-steps.*one after the other"):
        HalfStepModel(teacher)
    with pytest.raises(UnsupportedModelError, match="cannot be cut into half-steps"):
        HalfStepModel(raptor.load_model("scenes:k2"))


def test_another_image_size_is_refused():
    with pytest.raises(raptor.RaptorError, match="half-steps need the model's own 64x64"):
        raptor.load_model("half:scenes", image_size=32)


def test_a_model_of_half_steps_can_be_distilled():
    teacher = raptor.load_model("half:scenes")
    images = raptor.load_images("scenes:train", teacher, images=16)
    student = raptor.distill(teacher, images, "12-12", raptor.DistillOptions(steps=1, batch_size=4), progress=False)
    assert student.depth == 24
    with pytest.raises(OptionError):
        raptor.load_model("half:half:scenes")
