"""Pooling of tokens to the input of a classifier."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.core.flow import Head
from raptor.core.tokens import TokenLayout
from raptor.errors import WeightsError

Pool = Callable[[TokenLayout, Tensor], Tensor]


def cls(layout: TokenLayout, tokens: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch width"]:
    """Return the cls token."""
    return tokens[:, layout.where("cls")].squeeze(1)


def mean_patch(layout: TokenLayout, tokens: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch width"]:
    """Return the mean patch token."""
    return tokens[:, layout.where("patch")].mean(dim=1)


def cls_and_mean_patch(
    layout: TokenLayout, tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch twice_width"]:
    """Return concat(cls, mean patch), the input of DINOv2's linear classifier."""
    return torch.cat([cls(layout, tokens), mean_patch(layout, tokens)], dim=1)


def linear_head(linear: nn.Linear, layout: TokenLayout, width: int) -> Head:
    """Return a classifier on tokens; the number of input features of the linear layer determines the pooling."""
    pools: dict[int, Pool] = {width: cls if layout.n_cls else mean_patch}
    if layout.n_cls:
        pools[2 * width] = cls_and_mean_patch
    if linear.in_features not in pools:
        raise WeightsError(
            f"the head has {linear.in_features} input features; for this model it needs {' or '.join(map(str, pools))} "
            f"(cls, or cls and mean patch, of width {width})"
        )
    pool = pools[linear.in_features]
    return lambda tokens: linear(pool(layout, tokens))
