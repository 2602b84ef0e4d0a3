"""A small Vision Transformer that can be trained from scratch, written as a depth flow.

The network is ``embed -> step(0) -> ... -> step(L - 1) -> readout``: states before the final
norm are what every measure of the project looks at, so no forward hook is ever needed.
Parameter names follow timm (``blocks``, ``attn.qkv``, ``mlp.fc1``, ...).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from raptor.errors import OptionError
from raptor.models.layers import Block, PatchEmbed
from raptor.tokens import TokenLayout

# More than any ViT has: a description may come from anybody.
MOST = {"image_size": 10_000, "patch_size": 10_000, "depth": 1000, "width": 100_000, "heads": 1000, "n_register": 1000,
        "n_classes": 1_000_000}  # fmt: skip


@dataclass(frozen=True)
class ViTConfig:
    """Size and regularisation of a :class:`ViT`.

    The defaults are the ViT that ships with the package.

    Parameters
    ----------
    image_size, patch_size
        Side of the square image and of a patch, in pixels.
    depth, width, heads
        Number of blocks L, residual width D, attention heads (``width % heads == 0``).
    mlp_ratio
        Hidden width of the MLP is ``int(mlp_ratio * width)``.
    n_register
        Learned tokens between cls and the patches.
    n_classes
        Outputs of the linear head.
    drop_path
        Probability p that a layer is dropped for a sample in training, the same at every
        layer (the paper's "uniform across depth", not the linear ramp of timm).
    layer_scale
        Initial value of the LayerScale vectors, or None for a block without them.
    """

    image_size: int = 64
    patch_size: int = 8
    depth: int = 12
    width: int = 128
    heads: int = 4
    mlp_ratio: float = 4.0
    n_register: int = 4
    n_classes: int = 12
    drop_path: float = 0.0
    layer_scale: float | None = None

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value, least = getattr(self, name), int(name not in ("n_register", "n_classes"))
            if not isinstance(value, int) or not least <= value <= most:
                raise OptionError(f"{name} is a whole number from {least} to {most:,}, not {value!r}")
        if not 0 < self.mlp_ratio <= 100:
            raise OptionError(f"mlp_ratio {self.mlp_ratio} is not in (0, 100]")
        if self.image_size % self.patch_size:
            raise OptionError(f"image_size {self.image_size} is no multiple of patch_size {self.patch_size}")
        if self.width % self.heads:
            raise OptionError(f"width {self.width} is no multiple of heads {self.heads}")
        if self.width % 4:
            raise OptionError(f"width {self.width} is no multiple of 4 (position waves need it)")
        if not 0.0 <= self.drop_path < 1.0:
            raise OptionError(f"drop_path {self.drop_path} is not in [0, 1)")


def position_waves(rows: int, cols: int, width: int) -> Tensor:
    r"""Two-dimensional sine and cosine waves, the starting value of the learned positions.

    A quarter of the features each: sin and cos of ``row * w_i``, sin and cos of ``col * w_i``
    with ``w_i = 100^{-i / (width / 4)}`` (base 100, not 10,000: grids are small).
    Neighbouring patches start out alike, which a few thousand steps from noise would have to
    learn first.

    Returns
    -------
    Tensor
        (rows * cols, width), row-major.
    """
    n = width // 4
    freq = torch.exp(-math.log(100.0) * torch.arange(n) / n)
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    phases = [p.reshape(-1, 1) * freq for p in (y, x)]
    return torch.cat([wave(p) for p in phases for wave in (torch.sin, torch.cos)], dim=1)


class ViT(nn.Module):
    """Vision Transformer with cls, registers, uniform stochastic depth, optional LayerScale.

    Layer 0 is the output of :meth:`embed`, layers 1..L are block outputs before the final
    norm; tokens are ordered cls, registers, patches (row-major).

    Stochastic depth drops, in training mode, *both* residual branches of a block together,
    independently for every sample and layer with the same probability p::

        x_{l+1} = x_l + m / (1 - p) * (block_l(x_l) - x_l),   m ~ Bernoulli(1 - p)

    so the expected step equals the step in evaluation mode. The draws come from torch's
    global generator: restoring its state repeats them.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.depth = config.depth
        self.width = config.width
        side = config.image_size // config.patch_size
        self.layout = TokenLayout(n_cls=1, n_register=config.n_register, grid=(side, side))
        self.patch_embed = PatchEmbed(config.patch_size, config.width)
        self.cls_token = nn.Parameter(torch.empty(1, 1, config.width))
        self.reg_token = nn.Parameter(torch.empty(1, config.n_register, config.width))
        self.pos_embed = nn.Parameter(torch.empty(1, side * side, config.width))
        hidden = int(config.mlp_ratio * config.width)
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, hidden, config.layer_scale) for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.width, eps=1e-6)
        self.classifier = nn.Linear(config.width, config.n_classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Truncated normal of 0.02 (ViT, DeiT), zero biases, waves for the positions."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        patch = self.patch_embed.proj
        nn.init.trunc_normal_(patch.weight, std=0.02)
        nn.init.zeros_(cast(Tensor, patch.bias))
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.reg_token, std=0.02)
        with torch.no_grad():
            # Scaled down so that content is not drowned by position at the first step.
            self.pos_embed.copy_(0.2 * position_waves(*self.layout.grid, self.width))

    def embed(self, pixels: Tensor) -> Tensor:
        """Normalised pixels (B, 3, H, W) to layer 0, (B, T, D)."""
        patches = self.patch_embed(pixels) + self.pos_embed
        prefix = torch.cat([self.cls_token, self.reg_token], dim=1).expand(pixels.shape[0], -1, -1)
        return torch.cat([prefix, patches], dim=1)

    def step(self, tokens: Tensor, layer: int, first: int | None = None) -> Tensor:
        """States of layer ``layer`` (0-based) to the next, (B, T, D) -> (B, T, D).

        With ``first``, of that many tokens alone, (B, first, D).
        """
        block = self.blocks[layer]
        p = self.config.drop_path
        if not self.training or p == 0.0:
            return cast(Tensor, block(tokens, first))
        # Only the kept samples are computed: a dropped layer costs nothing.
        keep = torch.nonzero(torch.rand(len(tokens)) >= p).flatten().to(tokens.device)
        kept = tokens if len(keep) == len(tokens) else tokens[keep]
        change = block(kept, first) - kept[:, :first]
        return tokens[:, :first].index_add(0, keep, change, alpha=1.0 / (1.0 - p))

    def readout(self, tokens: Tensor) -> Tensor:
        """Final LayerNorm of layer-L states, (B, T, D) -> (B, T, D)."""
        return cast(Tensor, self.norm(tokens))

    def head(self, tokens: Tensor) -> Tensor:
        """Logits (B, C) from layer-L states before the norm: linear map of the normed cls."""
        return cast(Tensor, self.classifier(self.readout(tokens[:, 0])))

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised pixels (B, 3, H, W) to logits (B, C)."""
        tokens = self.embed(pixels)
        for layer in range(self.depth - 1):
            tokens = self.step(tokens, layer)
        # The classifier reads cls alone: of the last layer nothing else is computed.
        return self.head(self.step(tokens, self.depth - 1, first=1))
