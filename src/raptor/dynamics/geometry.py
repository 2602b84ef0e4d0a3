"""Angles between directions, and the norms of tokens by layer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import ImageSource
from raptor.core.estimate import LayerEstimates
from raptor.core.flow import DepthFlow
from raptor.dynamics.curves.norms import Norms
from raptor.dynamics.measures import run_measures


def angle(x: Float[Tensor, "*shape width"], y: Float[Tensor, "*shape width"]) -> Float[Tensor, " *shape"]:
    """Return the angle between unit vectors in radians.

    The formula keeps small angles, which arccos loses in single precision.
    """
    return 2 * torch.atan2((x - y).norm(dim=-1), (x + y).norm(dim=-1))


def layer_norms(flow: DepthFlow, images: ImageSource, seed: int = 0) -> LayerEstimates:
    """Measure the mean norm |x_l| of each token group at the layers 0..L (Figure 7 of the paper).

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, each of shape (batch, 3, height, width), or what `load_images` returned.
    seed
        Seed of the bootstrap over images.
    """
    norms = Norms()
    run_measures(flow, images, norms)
    return norms.compute(seed)
