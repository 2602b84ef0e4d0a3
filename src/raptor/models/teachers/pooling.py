"""From tokens to the vector that a classifier takes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.errors import WeightsError
from raptor.flow import Head
from raptor.tokens import TokenLayout

Pool = Callable[[TokenLayout, Tensor], Tensor]


def cls(layout: TokenLayout, tokens: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch width"]:
    """Return the cls token."""
    return tokens[:, layout.where("cls")].squeeze(1)


def mean_patch(layout: TokenLayout, tokens: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch width"]:
    """Return the mean over patch tokens."""
    return tokens[:, layout.where("patch")].mean(dim=1)


def cls_and_mean_patch(
    layout: TokenLayout, tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch twice_width"]:
    """Return concat(cls, mean patch), DINOv2's input of a linear classifier."""
    return torch.cat([cls(layout, tokens), mean_patch(layout, tokens)], dim=1)


def linear_head(linear: nn.Linear, layout: TokenLayout, width: int) -> Head:
    """Return a classifier on tokens, its pooling told by how many features the linear layer takes."""
    pools: dict[int, Pool] = {width: cls if layout.n_cls else mean_patch}
    if layout.n_cls:
        pools[2 * width] = cls_and_mean_patch
    if linear.in_features not in pools:
        raise WeightsError(
            f"a head for this model takes {' or '.join(map(str, pools))} features "
            f"(cls, or cls and mean patch of width {width}), not {linear.in_features}"
        )
    pool = pools[linear.in_features]
    return lambda tokens: linear(pool(layout, tokens))
