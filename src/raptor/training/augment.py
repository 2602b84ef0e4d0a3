"""Augmentation on tensors, drawn from torch's global generator."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad


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


def random_crop(
    pixels: Float[Tensor, "batch 3 height width"], smallest: float
) -> Float[Tensor, "batch 3 height width"]:
    """Cut a random rectangle out of each image and resize it to the image's size (bilinear).

    Parameters
    ----------
    pixels
        Images of one size.
    smallest
        Smallest share of the image's area; shares are uniform up to 1, and aspect ratios log-uniform in [3/4, 4/3].
    """
    if smallest == 1:
        return pixels
    n = len(pixels)
    area = smallest + (1 - smallest) * torch.rand(n)
    ratio = torch.exp((2 * torch.rand(n) - 1) * math.log(4 / 3))
    sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], dim=1).clamp(max=1)
    # Coordinates run from -1 to 1, so that a rectangle of relative side s has its centre within 1 - s of the middle.
    centres = (1 - sides) * (2 * torch.rand(n, 2) - 1)
    maps = torch.cat([torch.diag_embed(sides), centres[:, :, None]], dim=2).to(pixels)
    grid = affine_grid(maps, list(pixels.shape), align_corners=False)
    return grid_sample(pixels, grid, mode="bilinear", padding_mode="border", align_corners=False)
