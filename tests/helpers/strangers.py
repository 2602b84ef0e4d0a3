"""ViTs as people write them, in plain PyTorch: none of their classes is known to raptor.

Each entry of `STRANGERS` builds a module; `register` adds the adapters, written as docs/adapters.md says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import raptor

WIDTH, HEADS, DEPTH, PATCH, SIDE, CLASSES = 24, 3, 4, 8, 32, 5


class MultiheadBlock(nn.Module):
    """Pre-norm, `nn.MultiheadAttention`."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mha = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dropout=0.1)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Dropout(0.1), nn.Linear(48, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        n = self.n1(x)
        x = x + self.mha(n, n, n, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class PostNormBlock(MultiheadBlock):
    """The norm comes after the residual sum."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.n1(x + self.mha(x, x, x, need_weights=False)[0])
        return self.n2(x + self.ff(x))


class PackedAttention(nn.Module):
    """One parameter for queries, keys and values; no linear module for them."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(3 * WIDTH, WIDTH) / WIDTH**0.5)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = F.linear(x, self.qkv).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class PackedBlock(nn.Module):
    """Fused qkv and attention of one's own."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), PackedAttention()
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.n1(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class ParallelBlock(PackedBlock):
    """Attention and MLP read the same input."""

    def __init__(self):
        super().__init__()
        del self.n2

    def forward(self, x: Tensor) -> Tensor:
        n = self.n1(x)
        return x + self.attention(n) + self.down(F.gelu(self.up(n)))


class FusedParallelBlock(nn.Module):
    """Attention and MLP share one output projection, so their outputs cannot be scaled apart."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.into, self.back = nn.Linear(WIDTH, 3 * WIDTH + 48), nn.Linear(WIDTH + 48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        qkv, hidden = self.into(self.norm(x)).split([3 * WIDTH, 48], dim=-1)
        q, k, v = qkv.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.back(torch.cat([mixed, F.gelu(hidden)], dim=-1))


class LayerScaleBlock(PackedBlock):
    """A learned factor on each branch."""

    def __init__(self):
        super().__init__()
        self.g1, self.g2 = nn.Parameter(0.1 * torch.ones(WIDTH)), nn.Parameter(0.1 * torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.g1 * self.attention(self.n1(x))
        return x + self.g2 * self.down(F.gelu(self.up(self.n2(x))))


class Vit(nn.Module):
    """Patches, prefix tokens, blocks, a norm and a classifier."""

    block: Callable[[], nn.Module] = MultiheadBlock
    prefix = 1
    size = (SIDE, SIDE)

    def __init__(self):
        super().__init__()
        self.grid = (self.size[0] // PATCH, self.size[1] // PATCH)
        self.patchify = self.stem()
        if self.prefix:
            self.extra = nn.Parameter(torch.randn(1, self.prefix, WIDTH))
        self.where = nn.Parameter(torch.randn(1, self.prefix + self.grid[0] * self.grid[1], WIDTH))
        self.layers = nn.ModuleList(type(self).block() for _ in range(DEPTH))
        self.final, self.classifier = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def stem(self) -> nn.Module:
        return nn.Conv2d(3, WIDTH, PATCH, PATCH)

    def tokens(self, pixels: Tensor) -> Tensor:
        patches = self.patchify(pixels).flatten(2).transpose(1, 2)
        if self.prefix:
            patches = torch.cat([self.extra.expand(patches.shape[0], -1, -1), patches], dim=1)
        return patches + self.where

    def pooled(self, tokens: Tensor) -> Tensor:
        return self.classifier(tokens[:, 0] if self.prefix else tokens.mean(dim=1))

    def forward(self, pixels: Tensor) -> Tensor:
        tokens = self.tokens(pixels)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.pooled(self.final(tokens))


class EncoderVit(Vit):
    """`nn.TransformerEncoder` as a whole, fast path included."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 48, batch_first=True, norm_first=False, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.layers = self.encoder.layers
        for value in self.layers.parameters():  # nn.TransformerEncoder copies one layer: no two would differ
            nn.init.normal_(value, std=0.1)


class PostNormVit(Vit):
    block = PostNormBlock


class PackedVit(Vit):
    block = PackedBlock


class DistilledVit(Vit):
    """A class token and a distillation token."""

    prefix = 2


class PatchesOnlyVit(Vit):
    prefix = 0


class ParallelVit(Vit):
    block = ParallelBlock


class FusedParallelVit(Vit):
    block = FusedParallelBlock


class LayerScaleVit(Vit):
    block = LayerScaleBlock


class StemVit(Vit):
    """A convolutional stem in place of one patch embedding."""

    def stem(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, WIDTH, 3, 4, 1)
        )  # fmt: skip


class WideVit(Vit):
    """A grid that is not square."""

    size = (SIDE, 2 * SIDE)


STRANGERS: dict[str, type[Vit]] = {
    "nn.MultiheadAttention": Vit,
    "nn.TransformerEncoder": EncoderVit,
    "post-norm": PostNormVit,
    "packed qkv": PackedVit,
    "distillation token": DistilledVit,
    "no cls": PatchesOnlyVit,
    "parallel": ParallelVit,
    "parallel, fused": FusedParallelVit,
    "LayerScale": LayerScaleVit,
    "convolutional stem": StemVit,
    "non-square grid": WideVit,
}


def parts(model: Vit, image_size: tuple[int, int] | None) -> raptor.Parts:
    """The adapter of all of them."""
    if image_size not in (None, model.size):
        raise raptor.RaptorError(f"this model takes {model.size[0]}x{model.size[1]} alone, not {image_size}")
    return raptor.Parts(
        family=type(model).__name__,
        embed=model.tokens,
        blocks=model.layers,
        norm=model.final,
        layout=raptor.TokenLayout(n_cls=min(model.prefix, 1), n_register=max(model.prefix - 1, 0), grid=model.grid),
        width=WIDTH,
        heads=HEADS,
        image_size=model.size,
        patch_size=(PATCH, PATCH),
        classify=model.pooled,
    )


def build(name: str, seed: int = 0) -> Vit:
    """Build one with random weights, in evaluation mode."""
    raptor.register_adapter(Vit, parts)
    torch.manual_seed(seed)
    return STRANGERS[name]().eval()


def distilled() -> tuple[Vit, raptor.Preprocessing]:
    """A function as `python:strangers:distilled` names it."""
    return build("distillation token"), raptor.Preprocessing(crop=(SIDE, SIDE), resize=(SIDE, SIDE), mean=(0.5,) * 3)


def _with_preprocessing(name: str) -> tuple[Vit, raptor.Preprocessing]:
    module = build(name)
    return module, raptor.Preprocessing(crop=module.size, resize=module.size)


# `python:strangers:number_0` and so on: every entry as a function of the user's.
for _number, _name in enumerate(STRANGERS):
    globals()[f"number_{_number}"] = partial(_with_preprocessing, _name)
