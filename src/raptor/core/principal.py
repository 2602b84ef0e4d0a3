"""Principal components of states, for plots in three dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

COMPONENTS = 3


@dataclass(frozen=True)
class Principal:
    """Principal components of states, such as unit group means of all layers and images.

    Parameters
    ----------
    centre
        Mean of the states.
    components
        One component per row, in order of decreasing variance.
    explained
        Share of the variance of each component.
    """

    centre: Float[Tensor, " width"]
    components: Float[Tensor, "components width"]
    explained: list[float]

    def __call__(self, states: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape components"]:
        """Project states onto the components."""
        return (states - self.centre) @ self.components.T


def principal_of(centre: Float[Tensor, " width"], scatter: Float[Tensor, "width width"]) -> Principal:
    """Return the principal components from the mean and the (unnormalised) central second moments."""
    values, vectors = torch.linalg.eigh(scatter)
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    signs = vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True)).sign()
    shares = (values / values.sum())[:COMPONENTS]
    return Principal(centre, (vectors * signs).T[:COMPONENTS], shares.tolist())
