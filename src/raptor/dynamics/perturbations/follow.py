"""Perturb tokens at a layer and follow them, beside a perturbation that is carried along unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.core.flow import DepthFlow, layers_of
from raptor.dynamics.angles import angle_apart

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
    squares = away.square().sum(dim=-1)
    found, passive = (state.new_zeros(*shape, flow.depth + 1, tokens) for _ in range(2))
    for after, (_, moved) in enumerate(layers_of(flow, started, layer)):
        truth, length = normalize(states[after], dim=-1), states[after].norm(dim=-1)
        moved = moved.unflatten(0, shape)
        moved_length = moved.norm(dim=-1)
        distance = normalize(moved, dim=-1).sub_(truth[:, None, None]).norm(dim=-1)
        found[..., after, :] = angle_apart(distance, moved_length, length[:, None, None].expand_as(distance))
        passive[..., after, :] = _passive(away, squares, length, truth, sizes[..., 0])
    return found, passive


def _passive(
    away: Float[Tensor, "batch draws tokens width"],
    squares: Float[Tensor, "batch draws tokens"],
    length: Float[Tensor, "batch tokens"],
    truth: Float[Tensor, "batch tokens width"],
    sizes: Float[Tensor, "1 epsilons 1 1"],
) -> Float[Tensor, "batch epsilons draws tokens"]:
    """Return the angle between x + eps a and x: of a perturbation that the layers carry along unchanged.

    Given are a with its squared norms, and x by its length and direction.
    """
    along = torch.einsum("bntd,btd->bnt", away, truth)
    across = (squares - along.square()).clamp(min=0).sqrt()
    along, across, norm = along[:, None], across[:, None], length[:, None, None]
    return torch.atan2(sizes * across, norm + sizes * along)
