"""Perturb tokens at a layer and follow them, beside a perturbation that is carried along unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.core.flow import DepthFlow, layers_of
from raptor.dynamics.geometry import angle

Angles = Float[Tensor, "batch epsilons draws layers tokens"]


def follow(
    flow: DepthFlow,
    states: list[Float[Tensor, "batch tokens width"]],
    layer: int,
    where: slice,
    epsilons: Sequence[float],
    draws: int,
    generator: torch.Generator,
) -> tuple[Angles, Angles]:
    """Return the angles of every token to its unperturbed state by layers after the perturbation, and passive ones.

    Parameters
    ----------
    flow, layer, where
        The tokens `where` are perturbed at a layer.
    states
        Unperturbed states from that layer to the last.
    epsilons, draws, generator
        Sizes relative to each token's norm, number of random directions per size, and their source.
    """
    state = states[0]
    batch, tokens, width = state.shape
    shape = (batch, len(epsilons), draws)
    noise = torch.randn(batch, draws, tokens, width, generator=generator).to(state)
    away = torch.zeros_like(noise)
    away[:, :, where] = normalize(noise[:, :, where], dim=-1) * state[:, None, where].norm(dim=-1, keepdim=True)
    sizes = state.new_tensor(epsilons)[None, :, None, None, None]
    started = (state[:, None, None] + sizes * away[:, None]).flatten(0, 2)
    found, passive = (state.new_zeros(*shape, flow.depth + 1, tokens) for _ in range(2))
    for after, (_, moved) in enumerate(layers_of(flow, started, layer)):
        truth = normalize(states[after], dim=-1)
        beside = truth.repeat_interleave(shape[1] * shape[2], dim=0)
        found[..., after, :] = angle(normalize(moved, dim=-1), beside).unflatten(0, shape)
        passive[..., after, :] = _passive(away, states[after], truth, sizes[..., 0])
    return found, passive


def _passive(
    away: Float[Tensor, "batch draws tokens width"],
    state: Float[Tensor, "batch tokens width"],
    truth: Float[Tensor, "batch tokens width"],
    sizes: Float[Tensor, "1 epsilons 1 1"],
) -> Float[Tensor, "batch epsilons draws tokens"]:
    """Return the angle between x + eps a and x: of a perturbation that the layers carry along unchanged."""
    along = torch.einsum("bntd,btd->bnt", away, truth)
    across = (away.square().sum(dim=-1) - along.square()).clamp(min=0).sqrt()
    along, across, norm = along[:, None], across[:, None], state.norm(dim=-1)[:, None, None]
    return torch.atan2(sizes * across, norm + sizes * along)
