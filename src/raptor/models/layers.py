"""Layers of raptor's own networks; parameter names follow timm."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PatchEmbed(nn.Module):
    """Linear map of every non-overlapping patch: (B, 3, H, W) -> (B, H/P * W/P, D)."""

    def __init__(self, patch_size: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, kernel_size=patch_size, stride=patch_size)

    def forward(self, pixels: Tensor) -> Tensor:
        out: Tensor = self.proj(pixels)
        return out.flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Multi-head self-attention, (B, T, D) -> (B, T, D), or (B, first, D) if only the first tokens are needed."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor, first: int | None = None) -> Tensor:
        return cast(Tensor, self.proj(self.mix(tokens, first)))

    def mix(self, tokens: Tensor, first: int | None = None) -> Tensor:
        """Return the attention output before the output projection."""
        d = tokens.shape[-1]
        if first is None:
            q, k, v = self._by_head(self.qkv(tokens), 3)
        else:
            (q_weight, kv_weight), (q_bias, kv_bias) = (p.split([d, 2 * d]) for p in (self.qkv.weight, self.qkv.bias))
            (q,) = self._by_head(F.linear(tokens[:, :first], q_weight, q_bias), 1)
            k, v = self._by_head(F.linear(tokens, kv_weight, kv_bias), 2)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def _by_head(self, features: Tensor, n: int) -> tuple[Tensor, ...]:
        """Split (B, T, n D) into n tensors (B, heads, T, D / heads)."""
        b, t, nd = features.shape
        return features.view(b, t, n, self.heads, nd // (n * self.heads)).permute(2, 0, 3, 1, 4).unbind(0)


class Mlp(nn.Module):
    """Two linear maps with an exact GELU between, applied to every token."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(tokens)))
        return out


class LayerScale(nn.Module):
    """Learned factor per feature on a residual branch."""

    def __init__(self, width: int, init: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), init))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.gamma


class Block(nn.Module):
    """Pre-norm block: y = x + ls1(attn(norm1(x))), out = y + ls2(mlp(norm2(y)))."""

    def __init__(self, width: int, heads: int, hidden: int, layer_scale: float | None = None) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.ls1 = nn.Identity() if layer_scale is None else LayerScale(width, layer_scale)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width, hidden)
        self.ls2 = nn.Identity() if layer_scale is None else LayerScale(width, layer_scale)

    def forward(self, tokens: Tensor, first: int | None = None) -> Tensor:
        tokens = tokens[:, :first] + self.ls1(self.attn(self.norm1(tokens), first))
        return cast(Tensor, tokens + self.ls2(self.mlp(self.norm2(tokens))))
