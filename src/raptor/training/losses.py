"""How far predicted states are from a teacher's, in one number a layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import mse_loss

from raptor.device import doubled
from raptor.errors import DataError, OptionError
from raptor.flow import DepthFlow, layers_of, pixels_of
from raptor.tokens import GROUPS, TokenLayout

States = Float[Tensor, "batch layers tokens width"]
# By token group and for all tokens together: the variance of a teacher's states at some layers.
Spread = dict[str, Float[Tensor, " some_layers"]]


@dataclass(frozen=True)
class TrajectoryLoss:
    """Squared error by layer.

    Parameters
    ----------
    weights
        How much each token group counts; those of groups that a model lacks are shared among the others. None
        counts every token alike, as a plain mean does.
    """

    weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        unknown = set(self.weights or {}) - set(GROUPS)
        if unknown or any(weight < 0 for weight in (self.weights or {}).values()):
            raise OptionError(f"token weights are at least 0, for {', '.join(GROUPS)}; not {dict(self.weights or {})}")

    def __call__(
        self, predicted: States | list[Tensor], truth: States, layout: TokenLayout, spread: Spread | None = None
    ) -> Float[Tensor, " layers"]:
        """Return the mean squared error of each layer, over images, tokens and features.

        With `spread` the error of each group is divided by its variance at that layer: a loss is then 1 - R2, and
        early layers count as much as late ones, whose norms may be thirty times theirs. Predicted states may come as
        a list, one tensor a layer.
        """
        by_token = _errors(predicted, truth)
        if self.weights is None:
            return by_token.mean(dim=1) / (spread["all"] if spread else 1)
        present = {name: self.weights.get(name, 0.0) for name in layout.slices}
        total = sum(present.values())
        if total == 0:
            raise OptionError(f"no token of this model counts: it has {', '.join(present)}, weights are {self.weights}")
        parts = [
            weight / total * by_token[:, where].mean(dim=1) / (spread[name] if spread else 1)
            for (name, where), weight in zip(layout.slices.items(), present.values(), strict=True)
        ]
        return torch.stack(parts).sum(dim=0)


def _errors(predicted: States | list[Tensor], truth: States) -> Float[Tensor, "layers tokens"]:
    """Return the mean squared error of each layer and token; groups are made of these few numbers, not of states."""
    if isinstance(predicted, Tensor):
        return mse_loss(predicted, truth, reduction="none").mean(dim=(0, 3))
    errors = [mse_loss(state, truth[:, i], reduction="none").mean(dim=(0, 2)) for i, state in enumerate(predicted)]
    return torch.stack(errors)


@torch.no_grad()
def states_spread(flow: DepthFlow, images: Iterable[Any]) -> Spread:
    """Return the variance of a flow's states at the layers 1..L: over images, for each position and feature."""
    sums: list[list[Tensor]] = []
    n = 0
    for pixels in pixels_of(images):
        n += len(pixels)
        for layer, states in layers_of(flow, flow.embed(pixels)):
            if layer:
                states = doubled(states)
                added = [states.sum(dim=0), states.square().sum(dim=0)]
                if len(sums) < layer:
                    sums.append(added)
                else:
                    sums[layer - 1] = [a + b for a, b in zip(sums[layer - 1], added, strict=True)]
    if n < 2:
        raise DataError(f"the spread of states needs at least two images, not {n}")
    by_token = torch.stack([(squares / n - (total / n).square()).mean(dim=-1) for total, squares in sums])
    slices = {**flow.layout.slices, "all": slice(0, flow.layout.n_tokens)}
    # A state that is the same for all images has no variance to explain; its error still counts, as it is.
    return {name: _or_one(by_token[:, where].mean(dim=1)).float() for name, where in slices.items()}


def _or_one(variance: Tensor) -> Tensor:
    return torch.where(variance > 1e-12, variance, torch.ones_like(variance))
