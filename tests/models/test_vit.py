"""The trainable ViT against closed forms and against torch's own encoder layer."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from raptor.errors import OptionError
from raptor.models.layers import Block
from raptor.models.vit import ViT, ViTConfig, position_waves

SMALL = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=2, n_classes=5)


def small(**changes: object) -> ViT:
    torch.manual_seed(0)
    return ViT(ViTConfig(**{**SMALL.__dict__, **changes}))


@pytest.mark.parametrize("depth", [3, 12])
@pytest.mark.parametrize("layer_scale", [None, 1e-5])
def test_parameter_count_is_the_closed_form(depth: int, layer_scale: float | None) -> None:
    d, n_patch, n_register, n_classes, patch = 128, 64, 4, 12, 8
    model = ViT(ViTConfig(depth=depth, layer_scale=layer_scale))
    attention = (3 * d * d + 3 * d) + (d * d + d)
    mlp = (4 * d * d + 4 * d) + (4 * d * d + d)
    block = attention + mlp + 4 * d + (0 if layer_scale is None else 2 * d)
    embedding = 3 * patch * patch * d + d + (1 + n_register + n_patch) * d
    expected = embedding + depth * block + 2 * d + d * n_classes + n_classes
    assert sum(p.numel() for p in model.parameters()) == expected


def test_block_equals_torch_encoder_layer() -> None:
    torch.manual_seed(1)
    d, heads = 32, 4
    ours = Block(d, heads, 4 * d).eval()
    for p in ours.parameters():
        nn.init.normal_(p, std=0.3)
    theirs = nn.TransformerEncoderLayer(
        d, heads, 4 * d, dropout=0.0, activation="gelu", layer_norm_eps=1e-6,
        batch_first=True, norm_first=True,
    ).eval()  # fmt: skip
    pairs = {
        "self_attn.in_proj_": "attn.qkv.",
        "self_attn.out_proj.": "attn.proj.",
        "linear1.": "mlp.fc1.",
        "linear2.": "mlp.fc2.",
        "norm1.": "norm1.",
        "norm2.": "norm2.",
    }
    state = ours.state_dict()
    theirs.load_state_dict({a + end: state[b + end] for a, b in pairs.items() for end in ("weight", "bias")})
    tokens = torch.randn(3, 7, d)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens), rtol=1e-5, atol=1e-5)


def test_layer_scale_multiplies_each_branch() -> None:
    torch.manual_seed(2)
    plain = Block(16, 2, 64)
    scaled = Block(16, 2, 64, layer_scale=0.5)
    scaled.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(2, 5, 16)
    y = x + 0.5 * plain.attn(plain.norm1(x))
    torch.testing.assert_close(scaled(x), y + 0.5 * plain.mlp(plain.norm2(y)))


def test_embedding_is_prefix_then_row_major_patches() -> None:
    model = small()
    pixels = torch.randn(2, 3, 16, 16)
    tokens = model.embed(pixels)
    prefix = torch.cat([model.cls_token, model.reg_token], dim=1)
    torch.testing.assert_close(tokens[:, :3], prefix.expand(2, -1, -1))
    row, col = 2, 1
    patch = pixels[:, :, 4 * row : 4 * row + 4, 4 * col : 4 * col + 4]
    conv = model.patch_embed.proj
    by_hand = patch.flatten(1) @ conv.weight.flatten(1).T + conv.bias + model.pos_embed[0, 4 * row + col]
    torch.testing.assert_close(tokens[:, 3 + 4 * row + col], by_hand)


def test_forward_is_embed_steps_head_and_only_cls_is_classified() -> None:
    model = small().eval()
    pixels = torch.randn(2, 3, 16, 16)
    tokens = model.embed(pixels)
    for layer in range(model.depth):
        tokens = model.blocks[layer](tokens)
    logits = model.readout(tokens)[:, 0] @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(model(pixels), logits)
    other = tokens.clone()
    other[:, 1:] = torch.randn_like(other[:, 1:])
    torch.testing.assert_close(model.head(other), model.head(tokens))


def test_evaluation_ignores_stochastic_depth() -> None:
    pixels = torch.randn(4, 3, 16, 16)
    plain, dropped = small().eval(), small(drop_path=0.7).eval()
    assert torch.equal(plain(pixels), dropped(pixels))
    assert torch.equal(dropped(pixels), dropped(pixels))


@pytest.mark.parametrize("p", [0.2, 0.6])
def test_a_layer_is_dropped_whole_for_single_samples(p: float) -> None:
    """Every sample either stays where it is or makes the full step divided by 1 - p."""
    model = small(drop_path=p).train()
    tokens = torch.randn(4000, 1, 16)
    torch.manual_seed(3)
    with torch.no_grad():
        for layer in range(model.depth):
            moved = model.step(tokens, layer)
            full = tokens + (model.blocks[layer](tokens) - tokens) / (1 - p)
            stays = (moved == tokens).flatten(1).all(dim=1)
            torch.testing.assert_close(moved[~stays], full[~stays], rtol=1e-5, atol=1e-5)
            # The same rate at every layer; four standard deviations of a binomial.
            assert abs(stays.float().mean().item() - p) < 4 * (p * (1 - p) / 4000) ** 0.5


def test_expected_training_step_is_the_evaluation_step() -> None:
    p, draws = 0.3, 20_000
    model = small(drop_path=p)
    state = torch.randn(1, 4, 16)
    with torch.no_grad():
        step = model.eval().step(state, 0) - state
        torch.manual_seed(4)
        mean = model.train().step(state.expand(draws, -1, -1), 0).mean(dim=0) - state[0]
    # Relative spread of the mean of Bernoulli(1 - p) / (1 - p); four standard deviations.
    tolerance = 4 * (p / (1 - p) / draws) ** 0.5
    assert torch.linalg.norm(mean - step[0]) < tolerance * torch.linalg.norm(step) + 1e-5


def test_dropping_nearly_all_layers_leaves_the_embedding_and_no_gradient() -> None:
    model = small(drop_path=1 - 1e-9).train()
    pixels = torch.randn(8, 3, 16, 16)
    torch.manual_seed(5)
    logits = model(pixels)
    torch.testing.assert_close(logits, model.head(model.embed(pixels)), rtol=0, atol=0)
    logits.sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in model.blocks.parameters())


def test_gradient_with_dropping_equals_that_of_the_masked_formula() -> None:
    p = 0.5
    model = small(drop_path=p).train()
    tokens = torch.randn(6, 5, 16)
    torch.manual_seed(6)
    model.step(tokens, 1).square().sum().backward()
    ours = [q.grad.clone() for q in model.blocks[1].parameters() if q.grad is not None]
    model.zero_grad()
    torch.manual_seed(6)
    kept = (torch.rand(6) >= p).float()[:, None, None] / (1 - p)
    (tokens + kept * (model.blocks[1](tokens) - tokens)).square().sum().backward()
    theirs = [q.grad for q in model.blocks[1].parameters()]
    assert 0 < kept.count_nonzero() < 6
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_global_generator_repeats_the_draws() -> None:
    model = small(drop_path=0.5).train()
    pixels = torch.randn(16, 3, 16, 16)
    state = torch.get_rng_state()
    first = model(pixels)
    second = model(pixels)
    torch.set_rng_state(state)
    assert torch.equal(model(pixels), first)
    assert not torch.equal(first, second)


def test_position_waves_depend_on_the_offset_only() -> None:
    """Sine-cosine waves: inner products depend on the difference of places alone."""
    waves = position_waves(5, 6, 32).reshape(5, 6, 32)
    torch.testing.assert_close((waves[1, 1] * waves[3, 4]).sum(), (waves[2, 2] * waves[4, 5]).sum())
    torch.testing.assert_close(waves.square().sum(-1), torch.full((5, 6), 16.0))


@pytest.mark.parametrize(
    "wrong",
    [{"image_size": 60}, {"heads": 3}, {"width": 6, "heads": 2}, {"drop_path": 1.0}, {"drop_path": -0.1}],
)
def test_impossible_configurations_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ViTConfig(**wrong)  # type: ignore[arg-type]


def test_loading_does_not_import_the_compiler_of_torch() -> None:
    code = "import sys, raptor; raptor.load_model('scenes'); print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
