"""Losses: squared error of predicted states by layer, and the divergence of predicted classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, mse_loss

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.flow import DepthFlow, Head, layers_of
from raptor.core.tokens import GROUPS, TokenLayout
from raptor.errors import DataError, OptionError
from raptor.runtime.device import doubled

States = Float[Tensor, "batch layers tokens width"]
# Variance of a teacher's states at some layers: for each token group and `all` tokens, shape (layers), and for each
# token position (`TOKEN`), shape (layers, tokens) or, for tokens chosen per image, (layers, images, tokens).
StateVariance = dict[str, Tensor]

TOKEN = "token"
FLOOR = 1e-3  # variance of a position, as a share of its mean square: below it, a token is a constant for this purpose


@dataclass(frozen=True)
class TrajectoryLoss:
    """Squared error by layer.

    Parameters
    ----------
    weights
        Weight of each token group; weights of groups that a model lacks are shared among the others. None weights all
        tokens equally.
    per_token
        Whether a variance that is given divides the error of each token by that of its own position. Otherwise the mean
        error of a group is divided by the variance of the group, which may be mostly that of a few tokens.
    """

    weights: Mapping[str, float] | None = None
    per_token: bool = False

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

        With `variance`, errors are divided by the variance at that layer: the loss is then 1 - R2, and early layers
        count as much as late ones, whose norms may be thirty times as large. Predicted states may be a list of one
        tensor per layer.
        """
        errors = _errors(predicted, truth)
        if variance is None or not self.per_token:
            return self._weighted(errors.mean(dim=1), layout, variance)
        of_token = variance[TOKEN]
        relative = errors / (of_token if of_token.ndim == 3 else of_token[:, None])
        return self._weighted(relative.mean(dim=1), layout, None)

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


def _errors(predicted: States | list[Tensor], truth: States) -> Float[Tensor, "layers images tokens"]:
    """Return the mean squared error of each token, over features; groups are averaged from these."""
    states = predicted.unbind(dim=1) if isinstance(predicted, Tensor) else predicted
    errors = [mse_loss(state, truth[:, i], reduction="none").mean(dim=-1) for i, state in enumerate(states)]
    return torch.stack(errors)


def variance_at(
    variance: StateVariance | None, tokens: Int[Tensor, "images some_tokens"] | None
) -> StateVariance | None:
    """Return the variance at the tokens that are seen of each image; `None` stands for all of them."""
    if variance is None or tokens is None:
        return variance
    return {**variance, TOKEN: variance[TOKEN][:, tokens]}


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
    """Return the variance over images of a flow's states at the layers 1..L, averaged over features.

    That of a position is at least `FLOOR` times the mean square of its states, so that a token that hardly depends on
    the image does not outweigh all others.

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
    mean_square = torch.stack([(squares / n).mean(dim=-1) for _, squares in sums])
    by_token = mean_square - torch.stack([(total / n).square().mean(dim=-1) for total, _ in sums])
    slices = {**flow.layout.slices, "all": slice(0, flow.layout.n_tokens)}
    # A state that is the same for all images has no variance; its error counts as it is.
    by_group = {name: _or_one(by_token[:, where].mean(dim=1)).float() for name, where in slices.items()}
    return {**by_group, TOKEN: _or_one(by_token.clamp(min=FLOOR * mean_square)).float()}


def _or_one(variance: Tensor) -> Tensor:
    return torch.where(variance > 1e-12, variance, torch.ones_like(variance))
