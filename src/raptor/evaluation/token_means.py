"""Running means over images of numbers per token, by token group, with bootstrap draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.runtime.device import doubled

SINGLE_OR_BETTER = (torch.float32, torch.float64)


def at_least_single(states: Tensor) -> Tensor:
    """Return states in single or double precision; half precision would round differences of states."""
    return states if states.dtype in SINGLE_OR_BETTER else states.float()


class TokenMeans:
    """Means over the tokens of a group and over images, of several quantities at once.

    Parameters
    ----------
    slices
        Positions of the token groups.
    """

    def __init__(self, slices: dict[str, slice]):
        self.slices = slices
        self.names: tuple[str, ...] = ()
        self.mean = BinnedMean()
        self._drawn: tuple[tuple[int, int], Tensor] | None = None

    @property
    def n(self) -> int:
        """Number of images."""
        return self.mean.n

    def add(self, by_token: dict[str, Float[Tensor, "batch tokens"]]) -> None:
        """Add the next images: one number per image and token of every quantity, always the same quantities."""
        self.names = tuple(by_token)
        values = torch.stack([doubled(one) for one in by_token.values()], dim=-1)
        self.mean.add(torch.stack([values[:, where].mean(dim=1) for where in self.slices.values()], dim=1))

    def of(self, group: str, draws: int, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Return the mean of every quantity in a group, and its bootstrap draws over images."""
        if self._drawn is None or self._drawn[0] != (draws, seed):
            self._drawn = ((draws, seed), self.mean.resample(draws, seed))  # once for all groups
        place, mean = list(self.slices).index(group), self.mean.mean()
        return {name: (mean[place, i], self._drawn[1][:, place, i]) for i, name in enumerate(self.names)}


def layer_estimates(
    by_group: Mapping[str, Sequence[dict[str, Estimate[float]]]], name: str, n: int, seed: int
) -> LayerEstimates:
    """Gather one measure of all groups and layers.

    Parameters
    ----------
    by_group
        By token group, the measures of each layer by name.
    name
        The measure.
    n, seed
        Number of images; seed of the bootstrap.
    """
    return LayerEstimates(
        mean={group: [one[name].value for one in layers] for group, layers in by_group.items()},
        low={group: [one[name].low for one in layers] for group, layers in by_group.items()},
        high={group: [one[name].high for one in layers] for group, layers in by_group.items()},
        n=n,
        seed=seed,
    )
