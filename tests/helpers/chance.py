"""Flows in which nothing is to be found: random walks, and networks of independent random layers."""

from __future__ import annotations

import torch

import raptor
from raptor.core.toy import ToyFlow
from raptor.models.vit import ViT, ViTConfig
from scripted import DEPTH, LAYOUT, WIDTH, pictures

BATCH = 8


class Walk(ToyFlow):
    """Add noise that has nothing to do with the state, of a pace that differs from layer to layer.

    Every image of a batch has its own noise; several rows of one image, as of perturbations, share it.
    """

    def __init__(self, seed: int):
        super().__init__(DEPTH, WIDTH, LAYOUT)
        generator = torch.Generator().manual_seed(seed)
        self.noise = torch.randn(DEPTH, BATCH, LAYOUT.n_tokens, WIDTH, generator=generator)
        self.noise *= 0.1 + 0.5 * torch.rand(DEPTH, 1, 1, 1, generator=generator)
        self.start = torch.randn(48, LAYOUT.n_tokens, WIDTH, generator=generator)

    def embed(self, pixels):
        """Start at random; the same pixels start at the same place."""
        index = (pixels[:, 0, 0, 0].double() * 1e6).long() % 48
        return self.start[index].to(pixels)

    def step(self, tokens, layer):
        """Add the noise of a layer."""
        n = len(tokens)
        noise = self.noise[layer].to(tokens)
        return tokens + (noise.repeat_interleave(n // BATCH, dim=0) if n % BATCH == 0 else noise[:1])


def random_network(seed: int) -> raptor.Teacher:
    """Return a ViT with independent random layers, whose updates are neither negligible nor all there is."""
    generator = torch.Generator().manual_seed(seed)
    model = ViT(ViTConfig(image_size=24, depth=DEPTH, width=WIDTH, heads=4, n_register=2, n_classes=5)).eval()
    gain = 0.5 + torch.rand(1, generator=generator).item()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim > 1:
                spread = gain / value[0].numel() ** 0.5 if "token" not in name and "pos" not in name else 1.0
                value.copy_(spread * torch.randn(value.shape, generator=generator))
    return raptor.load_model(model)


def true_claims(flow, seed: int = 0) -> list[str]:
    """Return the claims that are called true, beyond their null."""
    options = raptor.DynamicsOptions(perturbation_images=8, lyapunov_images=1, mixing_pairs=12)
    found = raptor.measure_dynamics(flow, list(pictures(48, seed).split(BATCH)), 3, options, progress=False)
    return [claim.name for claim in found.claims if claim.held and claim.beyond_null]
