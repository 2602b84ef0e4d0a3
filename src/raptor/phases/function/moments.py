"""Second moments of features and targets, summed over images, and ridge regression from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

RIDGE = 1e-6  # penalty, as a share of the mean square of the features


@dataclass
class Moments:
    """Sums over tokens of the products of features and targets.

    Parameters
    ----------
    features
        Sum of the outer products of the features, F x F.
    targets
        Sum of the outer products of features and targets, F x d.
    energy
        Sum of the squared norms of the targets.
    """

    features: Float[Tensor, "f f"]
    targets: Float[Tensor, "f d"]
    energy: float

    @classmethod
    def of(cls, features: Float[Tensor, "*n f"], targets: Float[Tensor, "*n d"]) -> Moments:
        """Sum over all tokens of a batch; products in the given precision, sums of batches in double precision."""
        x, y = features.flatten(0, -2), targets.flatten(0, -2)
        return cls((x.mT @ x).double().cpu(), (x.mT @ y).double().cpu(), float(y.double().square().sum()))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.features + other.features, self.targets + other.targets, self.energy + other.energy)

    def __mul__(self, weight: float) -> Moments:
        return Moments(self.features * weight, self.targets * weight, self.energy * weight)

    def solve(self, ridge: float = RIDGE) -> Float[Tensor, "f d"]:
        """Return the map with the least squared error, plus a small penalty on its size."""
        size = self.features.diagonal().mean().clamp(min=1e-30)
        penalised = self.features + ridge * size * torch.eye(len(self.features), dtype=self.features.dtype)
        return torch.linalg.solve(penalised, self.targets)

    def error(self, weights: Float[Tensor, "f d"]) -> float:
        """Return the squared error that a map leaves."""
        fitted = (weights * (self.features @ weights)).sum() - 2 * (weights * self.targets).sum()
        return max(0.0, self.energy + float(fitted))
