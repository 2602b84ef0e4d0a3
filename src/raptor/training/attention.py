"""Attention in bfloat16 on a CPU, written as two matrix products.

torch's fused attention for CPUs does not use the processor's bfloat16 products: at 197 tokens it takes three times as
long as the products (forward and backward, AMD EPYC with AVX-512 BF16). `raptor bench` measures the ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


@contextmanager
def bf16_attention_by_products() -> Iterator[None]:
    """Compute attention of bfloat16 tensors on a CPU by matrix products; all other attention stays torch's own."""
    with _AttentionByProducts():
        yield


class _AttentionByProducts(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention and _suits(*args, **kwargs):
            return _by_products(*args, **kwargs)
        return func(*args, **kwargs)


def _suits(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> bool:
    of_cpu = query.device.type == "cpu" and {query.dtype, key.dtype, value.dtype} == {torch.bfloat16}
    masked = attn_mask is not None and attn_mask.dtype == torch.bool
    return of_cpu and not (masked or dropout_p or is_causal or options.get("enable_gqa"))


def _by_products(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, scale: float | None = None, **_: Any
) -> Tensor:
    """Return softmax(scale Q K^T + mask) V."""
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.mT
    weights = (scores if attn_mask is None else scores + attn_mask).softmax(dim=-1)
    return weights.to(value.dtype) @ value
