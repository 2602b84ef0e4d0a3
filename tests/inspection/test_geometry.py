"""Norms by layer on toys with known norms, and cost against closed forms."""

from __future__ import annotations

import pytest
import torch
import transformers as tf

import raptor
from raptor.core import toy
from raptor.models.complexity import count_flops, count_parameters
from vits import FAMILIES, SMALL, family, pixels


def batches(n=24, size=7):
    return pixels(32, 32, batch=n).double().split(size)


def test_a_rotation_keeps_every_norm():
    flow = toy.Rotation([0.3, 0.1, 0.7])
    norms = raptor.layer_norms(flow, batches())
    embedded = torch.cat([flow.embed(batch) for batch in batches()]).norm(dim=-1)
    for group, where in flow.layout.slices.items():
        assert norms.mean[group] == pytest.approx([embedded[:, where].mean().item()] * 4)
    assert norms.n == 24


def test_a_multiple_of_the_identity_scales_norms_by_its_powers():
    flow = toy.Diagonal(5, [1.5] * 8)
    mean = raptor.layer_norms(flow, batches()).mean["patch"]
    assert [value / mean[0] for value in mean] == pytest.approx([1.5**layer for layer in range(6)])


def test_intervals_hold_the_mean_and_shrink_with_images():
    flow = toy.Contraction(3, 0.5)
    few, many = raptor.layer_norms(flow, batches(16)), raptor.layer_norms(flow, batches(512))
    for norms in (few, many):
        for group in norms.mean:
            lows, highs = norms.ci[group]
            assert all(low <= mean <= high for low, mean, high in zip(lows, norms.mean[group], highs, strict=True))
    width = [norms.high["patch"][0] - norms.low["patch"][0] for norms in (few, many)]
    assert width[1] < width[0] / 3


def test_norms_do_not_depend_on_the_batch_size():
    teacher = raptor.load_model(family("dinov2-registers").build())
    images = pixels(32, 32, batch=12)
    whole, parts = raptor.layer_norms(teacher, [images]), raptor.layer_norms(teacher, images.split(5))
    for group, values in whole.mean.items():
        assert parts.mean[group] == pytest.approx(values, rel=1e-5)


@pytest.mark.parametrize("n_register", [0, 4])
def test_flops_and_parameters_of_a_vit_in_closed_form(n_register):
    """Per block: 4 d^2 T for the projections, 2 T^2 d for attention, 2 r d^2 T for the MLP; a multiply-add is two."""
    d, r, depth, patch = 32, 2, 3, 8
    sizes = {"hidden_size": d, "num_hidden_layers": depth, "num_attention_heads": 4, "mlp_ratio": r, "image_size": 32,
             "patch_size": patch}  # fmt: skip
    config = tf.Dinov2WithRegistersConfig(**sizes, num_register_tokens=n_register)
    teacher = raptor.load_model(tf.Dinov2WithRegistersModel(config))
    tokens = 16 + 1 + n_register
    embedding = 16 * 3 * patch**2 * d
    block = 4 * d * d * tokens + 2 * tokens * tokens * d + 2 * r * d * d * tokens
    assert count_flops(teacher, pixels(32, 32, batch=1)) == 2 * (embedding + depth * block)
    norms_and_scales = 4 * d + 2 * d
    linear = 4 * (d * d + d) + (r * d * d + r * d) + (r * d * d + d)
    outside = (3 * patch**2 * d + d) + d * (1 + 1 + n_register + 17) + 2 * d
    assert count_parameters(teacher) == depth * (linear + norms_and_scales) + outside


def test_tied_parameters_count_once():
    layer = torch.nn.Linear(4, 4)
    assert count_parameters(torch.nn.Sequential(layer, layer)) == 20


def test_flops_grow_in_proportion_to_images():
    teacher = raptor.load_model(FAMILIES[0].build())
    assert count_flops(teacher, pixels(32, 32, batch=3)) == 3 * count_flops(teacher, pixels(32, 32, batch=1))


def test_inspection_of_dinov2_base_has_its_published_numbers():
    """86.6 million parameters; 261 tokens with 4 registers at 224 pixels."""
    with torch.device("meta"):
        config = tf.Dinov2WithRegistersConfig(image_size=518, patch_size=14)
        model = tf.Dinov2WithRegistersModel(config)
    assert round(count_parameters(model) / 1e6, 1) == 86.6
    parts = raptor.load_model(model, image_size=224)
    assert parts.layout.n_tokens == 261
    assert (parts.depth, parts.width, parts.parts.heads) == (12, 768, 12)


def test_inspection_says_what_the_interface_promises():
    teacher = raptor.load_model(tf.DeiTForImageClassification(tf.DeiTConfig(**SMALL, num_labels=5)))
    said = raptor.inspect(teacher)
    assert said.tokens == {"cls": 1, "register": 1, "patch": 16}
    assert (said.family, said.layers, said.width, said.heads) == ("deit", 3, 32, 4)
    assert (said.grid, said.image_size, said.head) == ([4, 4], [32, 32], True)
    assert len(said.notes) == 1
    assert "distillation token" in said.notes[0]
    with pytest.warns(FutureWarning, match="tokens"):
        assert said["tokens"] == said.tokens
