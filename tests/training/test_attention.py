"""Attention by matrix products in bfloat16: the same function as torch's attention, only where it is meant."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from raptor.training.attention import bf16_attention_by_products


def inputs(dtype):
    torch.manual_seed(0)
    return [torch.randn(2, 3, 17, 8).to(dtype).requires_grad_() for _ in range(3)]


def run(dtype, **options):
    """Return the output and the gradients of the inputs."""
    tensors = inputs(dtype)
    output = attention(*tensors, **options)
    output.float().square().sum().backward()
    return [output, *(one.grad for one in tensors)]


@pytest.mark.parametrize(
    "options", [{}, {"scale": 0.2}, {"attn_mask": torch.linspace(-2, 2, 17).expand(17, 17).bfloat16()}]
)
def test_bf16_attention_equals_attention_in_single_precision(options):
    in_single = {name: value.float() if torch.is_tensor(value) else value for name, value in options.items()}
    wanted = run(torch.float32, **in_single)
    before = run(torch.bfloat16, **options)
    with bf16_attention_by_products():
        found = run(torch.bfloat16, **options)
    for exact, own, torchs in zip(wanted, found, before, strict=True):
        assert own.dtype == torch.bfloat16
        error, usual = (own.float() - exact).norm(), (torchs.float() - exact).norm()
        assert error < 0.02 * exact.norm()
        assert error < 3 * usual  # no less precise than torch's own in this precision
    assert any((own != torchs).any() for own, torchs in zip(found, before, strict=True))  # another computation ran


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.float32, {}),
        (torch.bfloat16, {"is_causal": True}),
        (torch.bfloat16, {"attn_mask": (torch.arange(17) < 9).expand(17, 17)}),
    ],
)
def test_other_attention_is_torchs_own(dtype, options):
    wanted = run(dtype, **options)
    with bf16_attention_by_products():
        found = run(dtype, **options)
    assert all(torch.equal(own, torchs) for own, torchs in zip(found, wanted, strict=True))


def test_the_context_ends_with_its_block():
    wanted = run(torch.bfloat16)
    with bf16_attention_by_products():
        run(torch.bfloat16)
    assert all(torch.equal(own, torchs) for own, torchs in zip(run(torch.bfloat16), wanted, strict=True))
