"""A small Vision Transformer that can be trained from scratch, as a depth flow.

The network is ``embed -> step(0) -> ... -> step(L - 1) -> readout``, so that states can be read without forward hooks.
Parameter names follow timm (``blocks``, ``attn.qkv``, ``mlp.fc1``, ...).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, cast

import torch
from torch import Tensor, nn

from raptor.core.phases import Phases
from raptor.core.tokens import TokenLayout
from raptor.errors import OptionError
from raptor.models.layers import Block, PatchEmbed

# Limits for untrusted configurations; larger than in any ViT.
MOST = {"image_size": 10_000, "patch_size": 10_000, "depth": 1000, "width": 100_000, "heads": 1000, "n_register": 1000,
        "n_classes": 1_000_000}  # fmt: skip
POOLS = ("cls", "cls+patch")
EARLIER = {"pool": "cls", "tied": None}  # what versions before these fields did


@dataclass(frozen=True)
class ViTConfig:
    """Size and regularisation of a :class:`ViT`.

    The defaults are those of the bundled ViT.

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
    pool
        What the classifier reads at the last layer: `cls`, or `cls+patch`, cls and the mean of the patches. With `cls`,
        the patches of the last layer receive no gradient.
    tied
        Phases such as `4-4-4`, or a layer map, within which layers share one block: a ViT that is recurrent by
        construction. None for a block per layer.
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
    pool: str = "cls"
    tied: str | None = None

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value, least = getattr(self, name), int(name not in ("n_register", "n_classes"))
            if not isinstance(value, int) or not least <= value <= most:
                raise OptionError(f"{name} {value!r} must be an integer from {least} to {most:,}")
        if not 0 < self.mlp_ratio <= 100:
            raise OptionError(f"mlp_ratio {self.mlp_ratio} is not in (0, 100]")
        if self.pool not in POOLS:
            raise OptionError(f"pool {self.pool!r} is not one of {', '.join(POOLS)}")
        if self.image_size % self.patch_size:
            raise OptionError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")
        if self.width % self.heads:
            raise OptionError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.width % 4:
            raise OptionError(f"width {self.width} is not a multiple of 4, which the position embedding needs")
        if self.layer_scale is not None and not isinstance(self.layer_scale, (int, float)):
            raise OptionError(f"layer_scale {self.layer_scale!r} is not a number")
        if not 0.0 <= self.drop_path < 1.0:
            raise OptionError(f"drop_path {self.drop_path} is not in [0, 1)")
        if not isinstance(self.tied, (str, NoneType)):
            raise OptionError(f"tied {self.tied!r} is not text such as 4-4-4, or None")
        self.phases.check_depth(self.depth)

    @property
    def phases(self) -> Phases:
        """Phases of the blocks; without tied layers, every layer is one."""
        return Phases((1,) * self.depth) if self.tied is None else Phases.parse(self.tied)

    def to_config(self) -> dict[str, Any]:
        """Return the fields for files, without those of later versions at what earlier ones did."""
        return {name: value for name, value in asdict(self).items() if EARLIER.get(name, "") != value}


def position_waves(rows: int, cols: int, width: int) -> Tensor:
    r"""Return two-dimensional sine and cosine waves, the initial position embedding.

    A quarter of the features each: sin and cos of ``row * w_i``, sin and cos of ``col * w_i`` with
    ``w_i = 100^{-i / (width / 4)}`` (base 100 instead of 10,000, because grids are small). Neighbouring patches start
    with similar embeddings, which training from noise would first have to learn.

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

    so that the expected step equals the step in evaluation mode. Random numbers come from torch's
    global generator.
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
            Block(config.width, config.heads, hidden, config.layer_scale) for _ in range(config.phases.k)
        )
        self.block_of = [config.phases.block_of(layer + 1) for layer in range(config.depth)]
        self.norm = nn.LayerNorm(config.width, eps=1e-6)
        self.classifier = nn.Linear(config.width * (1 + (config.pool != "cls")), config.n_classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise: truncated normal of 0.02 (as ViT and DeiT), zero biases, waves for the positions."""
        if self.pos_embed.is_meta:  # nothing to fill; arithmetic on this device would import torch's compiler: seconds
            return
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
            # Scaled down, so that positions do not dominate the content initially.
            self.pos_embed.copy_(0.2 * position_waves(*self.layout.grid, self.width))

    def embed(self, pixels: Tensor) -> Tensor:
        """Map normalised pixels (B, 3, H, W) to the states at layer 0, (B, T, D)."""
        patches = self.patch_embed(pixels) + self.pos_embed
        prefix = torch.cat([self.cls_token, self.reg_token], dim=1).expand(pixels.shape[0], -1, -1)
        return torch.cat([prefix, patches], dim=1)

    def step(self, tokens: Tensor, layer: int, first: int | None = None) -> Tensor:
        """Return the states at ``layer + 1`` from those at ``layer`` (0..L-1), (B, T, D) -> (B, T, D).

        With ``first``, only those of the first tokens, (B, first, D).
        """
        block = self.blocks[self.block_of[layer]]
        p = self.config.drop_path
        if not self.training or p == 0.0:
            return cast(Tensor, block(tokens, first))
        # Compute only the samples that are kept, so that a dropped layer costs nothing.
        keep = torch.nonzero(torch.rand(len(tokens)) >= p).flatten().to(tokens.device)
        kept = tokens if len(keep) == len(tokens) else tokens[keep]
        change = block(kept, first) - kept[:, :first]
        return tokens[:, :first].index_add(0, keep, change, alpha=1.0 / (1.0 - p))

    def readout(self, tokens: Tensor) -> Tensor:
        """Apply the final LayerNorm to layer-L states, (B, T, D) -> (B, T, D)."""
        return cast(Tensor, self.norm(tokens))

    def head(self, tokens: Tensor) -> Tensor:
        """Return logits (B, C) from layer-L states before the norm."""
        if self.config.pool == "cls":
            return cast(Tensor, self.classifier(self.readout(tokens[:, 0])))
        return self.classify(self.readout(tokens))

    def classify(self, tokens: Tensor) -> Tensor:
        """Return logits (B, C) from tokens after the norm, with a linear map."""
        if self.config.pool == "cls":
            return cast(Tensor, self.classifier(tokens[:, 0]))
        patches = tokens[:, self.layout.slices["patch"]].mean(dim=1)
        return cast(Tensor, self.classifier(torch.cat([tokens[:, 0], patches], dim=1)))

    def forward(self, pixels: Tensor) -> Tensor:
        """Map normalised pixels (B, 3, H, W) to logits (B, C)."""
        tokens = self.embed(pixels)
        for layer in range(self.depth - 1):
            tokens = self.step(tokens, layer)
        # A classifier that reads only cls needs only that token of the last layer.
        return self.head(self.step(tokens, self.depth - 1, first=1 if self.config.pool == "cls" else None))
