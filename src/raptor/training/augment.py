"""Augmentation on tensors, drawn from torch's global generator."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad


def flip(pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
    """Mirror each image with probability 1/2."""
    mirrored = torch.rand(len(pixels), device=pixels.device) < 0.5
    return torch.where(mirrored[:, None, None, None], pixels.flip(-1), pixels)


def shift(pixels: Float[Tensor, "batch 3 height width"], most: int) -> Float[Tensor, "batch 3 height width"]:
    """Move each image at random by up to `most` pixels in both directions; new pixels repeat the border."""
    if most == 0:
        return pixels
    batch, _, height, width = pixels.shape
    padded = pad(pixels, (most, most, most, most), mode="replicate")
    top, left = torch.randint(2 * most + 1, (2, batch), device=pixels.device)
    rows = top[:, None] + torch.arange(height, device=pixels.device)
    columns = left[:, None] + torch.arange(width, device=pixels.device)
    images = torch.arange(batch, device=pixels.device)
    return padded[images[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
