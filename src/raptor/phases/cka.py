r"""Unbiased linear CKA between layers, over minibatches of images.

For Gram matrices K, L of n images with their diagonals set to zero (Song et al. 2012)::

    HSIC = (tr(K L) + (1'K1)(1'L1) / ((n-1)(n-2)) - 2/(n-2) 1'K L 1) / (n (n-3))

and CKA is the average of HSIC(K, L) over minibatches, divided by the square root of the averages of HSIC(K, K) and
HSIC(L, L) (Nguyen et al. 2021). Unlike the cosine, CKA compares the relations between images, so it is invariant to
rotations between layers.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

MINIBATCH = 256
FEWEST = 4  # minimum number of images for the unbiased estimate


def hsic(features: Float[Tensor, "images layers width"]) -> Float[Tensor, "layers layers"]:
    """Return the unbiased HSIC of every pair of layers on one minibatch, in double precision."""
    n = len(features)
    # Centring changes only rounding: a feature that is the same for all images becomes exactly zero.
    x = features.double().transpose(0, 1)
    x = x - x.mean(dim=1, keepdim=True)
    grams = x @ x.mT
    grams.diagonal(dim1=1, dim2=2).zero_()
    rows = grams.sum(dim=2)
    total = rows.sum(dim=1)
    flat = grams.flatten(1)
    products = flat @ flat.T + torch.outer(total, total) / ((n - 1) * (n - 2)) - 2 / (n - 2) * rows @ rows.T
    return products / (n * (n - 3))


class StreamedCKA:
    """CKA between layers over a stream of images, in minibatches of 256 images whatever the size of the batches.

    A last partial minibatch is dropped and counted, unless it is the only one.
    """

    def __init__(self) -> None:
        self.minibatches = 0
        self._sum: Tensor | None = None
        self._waiting: list[Tensor] = []

    def add(self, features: Float[Tensor, "images layers width"]) -> None:
        """Add the next images: one vector per image and layer."""
        for image in features.detach().cpu():
            # A clone: a view would keep the whole batch in memory.
            self._waiting.append(image.clone())
            if len(self._waiting) == MINIBATCH:
                found = hsic(torch.stack(self._waiting))
                self._sum = found if self._sum is None else self._sum + found
                self.minibatches += 1
                self._waiting.clear()

    @property
    def dropped(self) -> int:
        """Number of images at the end that do not fill a minibatch and are not used."""
        used = self._sum is None and len(self._waiting) >= FEWEST
        return 0 if used else len(self._waiting)

    def matrix(self) -> Float[Tensor, "layers layers"] | None:
        """Return CKA of every pair of layers; None with fewer than four images.

        CKA is NaN for a layer at which all images have the same state, such as the cls token at layer 0.
        """
        if self._sum is None and len(self._waiting) < FEWEST:
            return None
        mean = hsic(torch.stack(self._waiting)) if self._sum is None else self._sum / self.minibatches
        scale = mean.diagonal().clamp(min=0).sqrt()
        return mean / torch.outer(scale, scale).where(torch.outer(scale, scale) > 0, torch.nan)
