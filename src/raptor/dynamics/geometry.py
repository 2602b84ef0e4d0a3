"""Norms of tokens by layer."""

from __future__ import annotations

from raptor.core.batches import ImageSource
from raptor.core.estimate import LayerEstimates
from raptor.core.flow import DepthFlow
from raptor.dynamics.curves.norms import Norms
from raptor.dynamics.measures import run_measures


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
