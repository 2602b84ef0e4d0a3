"""How far predicted states are from a teacher's, in one number a layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from raptor.errors import OptionError
from raptor.tokens import GROUPS, TokenLayout

States = Float[Tensor, "batch layers tokens width"]


@dataclass(frozen=True)
class TrajectoryLoss:
    """Squared error by layer.

    Parameters
    ----------
    weights
        How much each token group counts; those of groups that a model lacks are shared among the others. None
        counts every token alike, as a plain mean does.
    normalise
        Divide by the variance of the teacher's states over the batch, per layer and group: a layer's loss is then
        1 - R2, and early layers count as much as late ones, whose norms may be thirty times theirs.
    """

    weights: Mapping[str, float] | None = None
    normalise: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.weights or {}) - set(GROUPS)
        if unknown or any(weight < 0 for weight in (self.weights or {}).values()):
            raise OptionError(f"token weights are at least 0, for {', '.join(GROUPS)}; not {dict(self.weights or {})}")

    def __call__(self, predicted: States, truth: States, layout: TokenLayout) -> Float[Tensor, " layers"]:
        """Return the mean squared error of each layer, over images, tokens and features."""
        if self.weights is None:
            return self._error(predicted, truth)
        present = {name: self.weights.get(name, 0.0) for name in layout.slices}
        total = sum(present.values())
        if total == 0:
            raise OptionError(f"no token of this model counts: it has {', '.join(present)}, weights are {self.weights}")
        parts = [
            weight / total * self._error(predicted[:, :, where], truth[:, :, where])
            for (name, where), weight in zip(layout.slices.items(), present.values(), strict=True)
            if weight > 0  # nothing is computed whose weight is 0
        ]
        return sum(parts[1:], start=parts[0])

    def _error(self, predicted: States, truth: States) -> Float[Tensor, " layers"]:
        error = (predicted - truth).square().mean(dim=(0, 2, 3))
        if not self.normalise:
            return error
        spread = (truth - truth.mean(dim=0)).square().mean(dim=(0, 2, 3))
        return error / spread.clamp(min=1e-12)
