"""Attention in bfloat16 on the CPU: by matrix products, as in training, against torch's own."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from raptor.runtime.timing import Ratio, compare
from raptor.training.attention import bf16_attention_by_products

SHAPE = (16, 3, 197, 64)  # images, heads, tokens and features of a head of a ViT-Ti/16


def bf16_attention() -> Ratio:
    """Forward and backward pass of the attention of one layer."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(SHAPE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))

    def own() -> None:
        scaled_dot_product_attention(query, key, value).sum().backward()

    def by_products() -> None:
        with bf16_attention_by_products():
            own()

    return compare("attention in bfloat16 by products against torch's own", by_products, own, limit=1.0)
