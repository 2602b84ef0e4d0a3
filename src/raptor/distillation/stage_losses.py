"""Losses of the two stages of a distillation: blockwise, and end-to-end."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from raptor.core.flow import Head
from raptor.core.tokens import TokenLayout
from raptor.distillation.losses import States, StateVariance, TrajectoryLoss, class_divergence
from raptor.models.raptor import Raptor


def blockwise_loss(
    raptor: Raptor,
    truth: States,
    layout: TokenLayout,
    losses: list[TrajectoryLoss],
    forcing: float,
    variance: StateVariance | None = None,
) -> Tensor:
    """Return the loss of stage 1: the sum over blocks, each from the teacher's state at the input of its phase.

    In a `LayerMap`, the loss of a block is the mean over its layers, with a rollout for each of its runs of layers.

    Blocks share no weights, so the gradient of each is the same as if it were trained alone.

    Parameters
    ----------
    raptor
        The tied blocks.
    truth
        The teacher's states at the layers 0..L, shape (batch, L + 1, tokens, width).
    layout, losses
        Token groups, and one loss per block.
    forcing
        Weight in [0, 1] of one-step predictions from the teacher's states; the rest is on the rollout within the phase.
    variance
        Variance of the teacher's states at the layers 1..L, to divide by.
    """
    total = truth.new_zeros(())
    for span in raptor.phases.ranges:
        index = raptor.phases.block_of(span[0])
        block, loss = raptor.blocks[index], losses[index]
        part = len(span) / len(raptor.phases.layers[index])  # 1 unless the block comes again
        wanted = truth[:, span[0] : span[-1] + 1]
        own = None if variance is None else {name: by[span[0] - 1 : span[-1]] for name, by in variance.items()}
        if forcing > 0 and not raptor.untied:
            forced = [raptor.call(block, truth[:, layer - 1], layer) for layer in span]
            total = total + part * forcing * loss(forced, wanted, layout, own).mean()
        if forcing < 1 or raptor.untied:
            rolled = roll(raptor, truth[:, span[0] - 1], span)
            share = part if raptor.untied else part * (1 - forcing)
            total = total + share * mean_over_layers(raptor, loss(rolled, wanted, layout, own), span)
    return total


def end_to_end_loss(
    raptor: Raptor,
    truth: States,
    layout: TokenLayout,
    loss: TrajectoryLoss,
    variance: StateVariance | None = None,
    head: Head | None = None,
    head_weight: float = 0.0,
) -> Tensor:
    """Return the loss of stage 2: blocks rolled out together from layer 0, averaged over layers.

    Parameters
    ----------
    raptor, truth, layout, variance
        As in `blockwise_loss`.
    loss
        Loss of all layers.
    head, head_weight
        The teacher's classifier, and the weight of the divergence of its class probabilities; 0 for states alone.
    """
    layers = range(1, raptor.phases.depth + 1)
    states = roll(raptor, truth[:, 0], layers)
    of_states = mean_over_layers(raptor, loss(states, truth[:, 1:], layout, variance), layers)
    if head is None or head_weight == 0:
        return of_states
    return of_states + head_weight * class_divergence(head, states[-1], truth[:, -1])


def mean_over_layers(raptor: Raptor, by_layer: Float[Tensor, " layers"], layers: range) -> Tensor:
    """Return the mean over layers; an untied control has its own states only at the ends of phases."""
    if raptor.untied:
        by_layer = by_layer[[layers.index(end) for end in raptor.ends if end in layers]]
    return by_layer.mean()


def roll(raptor: Raptor, tokens: Tensor, layers: range) -> list[Tensor]:
    """Return the surrogate's states at `layers`, from the teacher's states at the layer before the first."""
    states = []
    for layer in layers:
        tokens = raptor.step(tokens, layer - 1)
        states.append(tokens)
    return states
