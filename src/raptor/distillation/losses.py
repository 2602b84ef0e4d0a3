"""Losses: squared error of predicted states by layer, and the divergence of predicted classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, mse_loss

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.flow import DepthFlow, Head, layers_of
from raptor.core.tokens import GROUPS, TokenLayout
from raptor.errors import DataError, OptionError
from raptor.inspection.outliers import FACTOR
from raptor.runtime.device import doubled

States = Float[Tensor, "batch layers tokens width"]
# Variance of a teacher's states at some layers, by token group and for all tokens.
StateVariance = dict[str, Float[Tensor, " some_layers"]]


@dataclass(frozen=True)
class TrajectoryLoss:
    """Squared error by layer.

    Parameters
    ----------
    weights
        Weight of each token group; weights of groups that a model lacks are shared among the others. None weights all
        tokens equally.
    relative
        Whether the squared error of each token is divided by the token's own squared norm. Tokens with massive
        activations then count as much as others. The variance is not used.
    outlier_weight
        Share of a relative loss that is on patches with massive activations alone. They are few, and a massive
        activation at a wrong token costs thousands of times what a missing one does: without a weight of their own, a
        surrogate learns to have none.
    """

    weights: Mapping[str, float] | None = None
    relative: bool = False
    outlier_weight: float = 0.0

    def __post_init__(self) -> None:
        unknown = set(self.weights or {}) - set(GROUPS)
        if unknown or any(weight < 0 for weight in (self.weights or {}).values()):
            raise OptionError(
                f"token weights must be at least 0, for {', '.join(GROUPS)}; not {dict(self.weights or {})}"
            )

    def __call__(
        self,
        predicted: States | list[Tensor],
        truth: States,
        layout: TokenLayout,
        variance: StateVariance | None = None,
    ) -> Float[Tensor, " layers"]:
        """Return the mean squared error of each layer, over images, tokens and features.

        With `variance`, the error of each group is divided by its variance at that layer: the loss is then 1 - R2, and
        early layers count as much as late ones, whose norms may be thirty times as large. Predicted states may be a
        list of one tensor per layer.
        """
        if self.relative:
            errors = _relative_errors(predicted, truth)  # layers, images, tokens
            by_layer = self._weighted(errors.mean(dim=1), layout, None)
            if not self.outlier_weight:
                return by_layer
            outliers = _outliers(truth, layout)
            n = outliers.sum(dim=(1, 2))
            of_outliers = (errors * outliers).sum(dim=(1, 2)) / n.clamp(min=1)
            return torch.where(n > 0, torch.lerp(by_layer, of_outliers, self.outlier_weight), by_layer)
        return self._weighted(_errors(predicted, truth), layout, variance)

    def _weighted(
        self, by_token: Float[Tensor, "layers tokens"], layout: TokenLayout, variance: StateVariance | None
    ) -> Float[Tensor, " layers"]:
        """Return the mean over tokens, by the weights of their groups."""
        if self.weights is None:
            return by_token.mean(dim=1) / (variance["all"] if variance else 1)
        present = {name: self.weights.get(name, 0.0) for name in layout.slices}
        total = sum(present.values())
        if total == 0:
            raise OptionError(
                f"no token group of this model has a weight: it has {', '.join(present)}; weights are {self.weights}"
            )
        parts = [
            weight / total * by_token[:, where].mean(dim=1) / (variance[name] if variance else 1)
            for (name, where), weight in zip(layout.slices.items(), present.values(), strict=True)
        ]
        return torch.stack(parts).sum(dim=0)


def _errors(predicted: States | list[Tensor], truth: States) -> Float[Tensor, "layers tokens"]:
    """Return the mean squared error of each layer and token; groups are averaged from these."""
    if isinstance(predicted, Tensor):
        return mse_loss(predicted, truth, reduction="none").mean(dim=(0, 3))
    errors = [mse_loss(state, truth[:, i], reduction="none").mean(dim=(0, 2)) for i, state in enumerate(predicted)]
    return torch.stack(errors)


def _relative_errors(predicted: States | list[Tensor], truth: States) -> Float[Tensor, "layers images tokens"]:
    """Return the squared error of each token over its squared norm."""
    states = predicted.unbind(dim=1) if isinstance(predicted, Tensor) else predicted
    errors = [
        (state - truth[:, i]).square().sum(dim=-1) / truth[:, i].square().sum(dim=-1).clamp(min=1e-12)
        for i, state in enumerate(states)
    ]
    return torch.stack(errors)


def _outliers(truth: States, layout: TokenLayout) -> Float[Tensor, "layers images tokens"]:
    """Return 1 for patches whose norm is far above the median of their image's patches, 0 for all other tokens."""
    norms = truth.norm(dim=-1).transpose(0, 1)
    patches = norms[..., layout.slices["patch"]]
    found = torch.zeros_like(norms)
    found[..., layout.slices["patch"]] = (patches > FACTOR * patches.median(dim=-1, keepdim=True).values).to(norms)
    return found


def class_divergence(
    head: Head, predicted: Float[Tensor, "batch tokens width"], truth: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, ""]:
    """Return the mean Kullback-Leibler divergence, in nats, of the surrogate's class probabilities from the teacher's.

    Parameters
    ----------
    head
        The teacher's classifier.
    predicted, truth
        States of surrogate and teacher at layer L.
    """
    with torch.no_grad():
        wanted = log_softmax(head(truth), dim=-1)
    return kl_div(log_softmax(head(predicted), dim=-1), wanted, reduction="batchmean", log_target=True)


@torch.no_grad()
def measure_state_variance(flow: DepthFlow, images: ImageSource) -> StateVariance:
    """Return the variance over images of a flow's states at the layers 1..L, averaged over positions and features.

    Parameters
    ----------
    flow
        The teacher.
    images
        Batches of pixels, or what `load_images` returns; at least two images.
    """
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
        raise DataError(f"the variance of states needs at least two images, not {n}")
    by_token = torch.stack([(squares / n - (total / n).square()).mean(dim=-1) for total, squares in sums])
    slices = {**flow.layout.slices, "all": slice(0, flow.layout.n_tokens)}
    # A state that is the same for all images has no variance; its error counts as it is.
    return {name: _or_one(by_token[:, where].mean(dim=1)).float() for name, where in slices.items()}


def _or_one(variance: Tensor) -> Tensor:
    return torch.where(variance > 1e-12, variance, torch.ones_like(variance))
