"""Toy flows that satisfy or violate a claim of the paper by construction."""

from __future__ import annotations

import torch

from raptor.core.tokens import TokenLayout
from raptor.core.toy import ToyFlow

DEPTH, WIDTH = 12, 32
LAYOUT = TokenLayout(n_cls=1, n_register=2, grid=(3, 3))
GROUPS = ("cls", "register", "patch")


def pictures(n: int = 48, seed: int = 0) -> torch.Tensor:
    """Return random images of 24 pixels."""
    return torch.rand(n, 3, 24, 24, generator=torch.Generator().manual_seed(seed))


def every(values) -> dict[str, list[float]]:
    """Return the same schedule for all groups; a number is repeated over depth."""
    schedule = [values] * DEPTH if isinstance(values, (int, float)) else list(values)
    return dict.fromkeys(GROUPS, schedule)


def scattered(tokens: torch.Tensor) -> torch.Tensor:
    """Return tokens of the same shape whose directions differ much between images."""
    code = torch.randn(tokens.shape[-1], WIDTH, generator=torch.Generator().manual_seed(5)).to(tokens)
    return torch.sin(9 * tokens @ code)


class Scripted(ToyFlow):
    """Turn pairs of features by an angle, scale, and multiply what is across a fixed direction, by group and step.

    Parameters
    ----------
    angle, growth, across
        By token group, one number per step: angle in radians, factor of the norm, factor of all features but the first
        two.
    spread
        By token group, how much the angle varies between tokens and images.
    """

    def __init__(self, angle=None, growth=None, across=None, spread=None):
        super().__init__(DEPTH, WIDTH, LAYOUT)
        self.angle, self.growth = angle or every(0.0), growth or every(1.0)
        self.across, self.spread = across or every(1.0), spread or dict.fromkeys(GROUPS, 0.0)

    def step(self, tokens, layer):
        """Apply the script of a layer."""
        parts = []
        for group, where in self.layout.slices.items():
            x = tokens[:, where]
            first, second = x[..., ::2], x[..., 1::2]
            code = 2 * torch.frac(x.norm(dim=-1, keepdim=True) * 97) - 1  # differs between tokens, stays along depth
            angle = self.angle[group][layer] * (1 + self.spread[group] * code)
            turned = torch.stack(
                [angle.cos() * first - angle.sin() * second, angle.sin() * first + angle.cos() * second], dim=-1
            ).flatten(-2)
            turned = torch.cat([turned[..., :2], turned[..., 2:] * self.across[group][layer]], dim=-1)
            parts.append(turned * self.growth[group][layer])
        return torch.cat(parts, dim=1)


class Updates(ToyFlow):
    """Add updates of a given rank, or of a given share that all tokens have in common, at each step."""

    def __init__(self, rank=None, shared=None):
        super().__init__(DEPTH, WIDTH, LAYOUT)
        self.rank, self.shared = rank or [WIDTH] * DEPTH, shared or [0.0] * DEPTH
        generator = torch.Generator().manual_seed(1)
        self.mixed = torch.randn(DEPTH, WIDTH, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.5
        self.common = torch.randn(DEPTH, WIDTH, generator=generator, dtype=torch.float64)

    def step(self, tokens, layer):
        """Add random features of the token's direction, in the first dimensions of a rank, and a common vector."""
        unit = torch.nn.functional.normalize(tokens - tokens.mean(dim=(0, 1)), dim=-1)
        own = unit.sign() @ self.mixed[layer].to(tokens)
        own = own / own.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        kept = torch.zeros(self.width).to(tokens)
        kept[: self.rank[layer]] = 1
        common = torch.nn.functional.normalize(self.common[layer].to(tokens), dim=-1)
        share = self.shared[layer]
        return tokens + 0.5 * ((1 - share) * own * kept + share * common)


class Attractors(ToyFlow):
    """Pull every token to the nearest of a few directions: basins with sharp borders that correct perturbations."""

    def __init__(self, strength: float = 0.3, sharpness: float = 12.0):
        super().__init__(DEPTH, WIDTH, LAYOUT)
        self.strength, self.sharpness = strength, sharpness
        generator = torch.Generator().manual_seed(2)
        self.centres = torch.linalg.qr(torch.randn(WIDTH, 8, generator=generator))[0].T

    def embed(self, pixels):
        """Start in directions that differ much between images."""
        return scattered(super().embed(pixels))

    def step(self, tokens, layer):
        """Move each direction towards a weighted mean of the centres."""
        norm = tokens.norm(dim=-1, keepdim=True)
        unit, centres = tokens / norm, self.centres.to(tokens)
        aim = torch.softmax(self.sharpness * unit @ centres.T, dim=-1) @ centres
        moved = torch.nn.functional.normalize(unit + self.strength * (aim - unit), dim=-1)
        return moved * norm


class Decays(ToyFlow):
    """Features beside the first decay by one factor for each token group: memories of different lengths."""

    def __init__(self, factors, kept=None):
        super().__init__(DEPTH, WIDTH, LAYOUT)
        self.factors, self.kept = factors, kept or dict.fromkeys(GROUPS, WIDTH)

    def embed(self, pixels):
        """Start with a large first feature, and as many others as the group keeps."""
        tokens = super().embed(pixels).clone()
        for group, where in self.layout.slices.items():
            noise = scattered(tokens[:, where])
            noise[..., self.kept[group] :] = 0
            noise[..., 0] = 3
            tokens[:, where] = noise
        return tokens

    def step(self, tokens, layer):
        """Multiply all features but the first."""
        parts = []
        for group, where in self.layout.slices.items():
            factor = torch.linspace(1, self.factors[group], self.width).to(tokens)
            parts.append(tokens[:, where] * factor)
        return torch.cat(parts, dim=1)
