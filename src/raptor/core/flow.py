"""The depth flow, the interface of every model: an embedding, L steps and a readout.

A ViT, a surrogate of weight-tied blocks and a toy linear map share this interface. One function, `rollout`, therefore
computes teacher activations, teacher forcing, autoregression, stitched evaluation, perturbations and layer
interventions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from raptor.core.tokens import TokenLayout
from raptor.core.trajectory import Trajectory
from raptor.errors import LayerError, LayoutError

Head = Callable[[Tensor], Tensor]


def is_right(logits: Float[Tensor, "batch classes"], label: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return 1 for images whose top-1 prediction is correct, 0 for others, and NaN if the logits are NaN."""
    right = (logits.argmax(dim=1).cpu() == label.cpu()).double()
    return torch.where(logits.isnan().any(dim=1).cpu(), torch.nan, right)


@runtime_checkable
class DepthFlow(Protocol):
    """The interface of a model.

    Layer 0 is the embedding, and layers 1..L are the outputs of the blocks, before the final norm. A flow has no hidden
    state: `step(tokens, layer)` depends only on its arguments.
    """

    @property
    def depth(self) -> int:
        """Number of steps, L."""

    @property
    def width(self) -> int:
        """Number of features per token."""

    @property
    def layout(self) -> TokenLayout:
        """Positions of the token groups."""

    @property
    def head(self) -> Head | None:
        """Classifier on layer-L states, or None if the model has none."""

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return the states at layer 0."""

    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Return the states at `layer + 1` from those at `layer` (0..L-1)."""

    def readout(self, tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch tokens features"]:
        """Apply the final norm."""


OnState = Callable[[int, Tensor], None]


def trajectory_size(flow: DepthFlow) -> int:
    """Return the number of values in the states of one image, layers 0..L."""
    return (flow.depth + 1) * flow.layout.n_tokens * flow.width


def layers_of(
    flow: DepthFlow, tokens: Float[Tensor, "batch tokens width"], start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, Tensor]]:
    """Yield (layer, states) from `start` to `stop`, both included, holding only the current states."""
    stop = flow.depth if stop is None else stop
    if not 0 <= start <= stop <= flow.depth:
        raise LayerError(f"cannot roll out from layer {start} to layer {stop}; use 0 <= start <= stop <= {flow.depth}")
    # A strided view would round differently; continuing from a stored layer must be bit-identical.
    tokens = tokens.contiguous()
    yield start, tokens
    for layer in range(start, stop):
        tokens = flow.step(tokens, layer)
        yield layer + 1, tokens


def rollout(
    flow: DepthFlow,
    tokens: Float[Tensor, "batch tokens width"],
    start: int = 0,
    stop: int | None = None,
    on_state: OnState | None = None,
) -> Trajectory:
    """Run a flow from the states at layer `start` to layer `stop`.

    Parameters
    ----------
    flow
        Any depth flow.
    tokens
        States at layer `start`; `flow.embed(pixels)` for start = 0.
    start, stop
        First and last layer, both included; by default 0 and L.
    on_state
        Called as `on_state(layer, states)` at every layer from `start` to `stop`. The trajectory then has only the
        last layer, so that memory does not grow with depth.

    Returns
    -------
    Trajectory
        Layers `start` to `stop`; only layer `stop` if `on_state` is given.
    """
    stop = flow.depth if stop is None else stop
    states = tokens
    if on_state is not None:
        for layer, states in layers_of(flow, tokens, start, stop):
            on_state(layer, states)
        return Trajectory(states.unsqueeze(1), flow.layout, first_layer=stop)
    if torch.is_grad_enabled():
        kept = [states for _, states in layers_of(flow, tokens, start, stop)]
        return Trajectory(torch.stack(kept, dim=1), flow.layout, start)
    # Without gradients, states are written into one tensor: half the memory of stacking them at the end.
    whole: Tensor | None = None
    for layer, states in layers_of(flow, tokens, start, stop):
        if whole is None:
            whole = states.new_empty(len(states), stop - start + 1, *states.shape[1:])
        whole[:, layer - start] = states
    assert whole is not None
    return Trajectory(whole, flow.layout, start)


def last_state(
    flow: DepthFlow, tokens: Float[Tensor, "batch tokens width"], start: int = 0, stop: int | None = None
) -> Float[Tensor, "batch tokens width"]:
    """Return only the states at layer `stop`, by default the last layer."""
    return rollout(flow, tokens, start, stop, on_state=lambda layer, states: None).states[:, 0]


class Stitched:
    """A flow that follows one flow up to a layer and another flow from there on.

    Parameters
    ----------
    first, second, at
        As in `stitch`.
    """

    def __init__(self, first: DepthFlow, second: DepthFlow, at: int):
        self.first, self.second, self.at = first, second, at
        self.depth, self.width, self.layout = second.depth, second.width, second.layout
        self.head = second.head

    def embed(self, pixels: Tensor) -> Tensor:
        """Embed with the first flow."""
        return self.first.embed(pixels)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Step with the first flow below layer `at`, with the second from there on."""
        return (self.first if layer < self.at else self.second).step(tokens, layer)

    def readout(self, tokens: Tensor) -> Tensor:
        """Read out with the second flow."""
        return self.second.readout(tokens)


def stitch(first: DepthFlow, second: DepthFlow, at: int) -> Stitched:
    """Return the flow that follows `first` from layer 0 to `at` and `second` from `at` to its end.

    Parameters
    ----------
    first, second
        Flows with the same token layout and width.
    at
        Layer at which `second` takes over; 0 uses only the embedding of `first`.
    """
    if (first.layout, first.width) != (second.layout, second.width):
        raise LayoutError(
            f"cannot stitch {first.layout} of width {first.width} to {second.layout} of width {second.width}; use "
            "flows with the same layout and width"
        )
    if not 0 <= at <= min(first.depth, second.depth):
        raise LayerError(
            f"cannot stitch at layer {at}; flows of depths {first.depth} and {second.depth} can be stitched at layers "
            f"0 to {min(first.depth, second.depth)}"
        )
    return Stitched(first, second, at)


class ReorderedFlow:
    """A flow that runs the steps of another flow in a given order.

    Parameters
    ----------
    flow
        The original flow; it is not changed.
    order
        Steps 0..L-1 of the original flow, in the order in which they run. Steps may repeat or be left out.
    """

    def __init__(self, flow: DepthFlow, order: Sequence[int]):
        if any(not 0 <= step < flow.depth for step in order):
            raise LayerError(f"order {list(order)} has a step outside 0..{flow.depth - 1}, the steps of this flow")
        self.flow, self.order = flow, tuple(order)
        self.depth, self.width, self.layout, self.head = len(self.order), flow.width, flow.layout, flow.head

    def embed(self, pixels: Tensor) -> Tensor:
        """Embed with the original flow."""
        return self.flow.embed(pixels)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Run the step at this position of the order."""
        return self.flow.step(tokens, self.order[layer])

    def readout(self, tokens: Tensor) -> Tensor:
        """Read out with the original flow."""
        return self.flow.readout(tokens)

    @property
    def unchanged(self) -> int:
        """Number of leading steps that are the same as in the original flow."""
        same = itertools.takewhile(lambda both: both[0] == both[1], enumerate(self.order))
        return sum(1 for _ in same)
