"""Principal directions of states: three coordinates to look at them in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

COMPONENTS = 3


@dataclass(frozen=True)
class Principal:
    """Principal directions of states, such as unit group means of all layers and images.

    Parameters
    ----------
    centre
        Their mean.
    components
        Rows, the direction of most variance first.
    explained
        Share of the variance along each.
    """

    centre: Float[Tensor, " width"]
    components: Float[Tensor, "components width"]
    explained: list[float]

    def __call__(self, states: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape components"]:
        """Return the coordinates of states."""
        return (states - self.centre) @ self.components.T


def principal_of(centre: Float[Tensor, " width"], scatter: Float[Tensor, "width width"]) -> Principal:
    """Return the directions of most variance, from the mean and the second moments about it, in any unit."""
    values, vectors = torch.linalg.eigh(scatter)
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
    # An eigenvector has no sign of its own: the largest entry is made positive.
    signs = vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True)).sign()
    shares = (values / values.sum())[:COMPONENTS]
    return Principal(centre, (vectors * signs).T[:COMPONENTS], shares.tolist())
