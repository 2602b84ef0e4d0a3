"""The depth flow: embed, then L steps, then a readout. Every model here is one.

A ViT, a surrogate made of tied blocks and a toy linear map all have the same form, so one function,
`rollout`, gives teacher activations, teacher forcing, autoregression, stitched evaluation,
perturbations and layer interventions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from raptor.errors import LayerError, LayoutError
from raptor.processes import team_of
from raptor.tokens import TokenLayout
from raptor.trajectory import Trajectory

Head = Callable[[Tensor], Tensor]


def is_right(logits: Float[Tensor, "batch classes"], label: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return 1 where the most likely class is the right one, else 0; not a number where the logits are none."""
    right = (logits.argmax(dim=1).cpu() == label.cpu()).double()
    return torch.where(logits.isnan().any(dim=1).cpu(), torch.nan, right)


@runtime_checkable
class DepthFlow(Protocol):
    """What every analysis needs of a model.

    Layer 0 is the embedding, layers 1..L are block outputs; states are taken before the final norm.
    No state passes between calls: `step(tokens, layer)` depends on its arguments alone.
    """

    @property
    def depth(self) -> int:
        """Number of steps, L."""

    @property
    def width(self) -> int:
        """Number of features of a token."""

    @property
    def layout(self) -> TokenLayout:
        """Where the token groups stand."""

    @property
    def head(self) -> Head | None:
        """Classifier that takes layer-L states, or None where the model has none."""

    def embed(self, pixels: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch tokens features"]:
        """Return layer 0."""

    def step(
        self, tokens: Float[Tensor, "batch tokens features"], layer: int
    ) -> Float[Tensor, "batch tokens features"]:
        """Go from `layer` (0..L-1) to `layer + 1`."""

    def readout(self, tokens: Float[Tensor, "batch tokens features"]) -> Float[Tensor, "batch tokens features"]:
        """Apply the final norm."""


OnState = Callable[[int, Tensor], None]


def pixels_of(images: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the pixels of batches, be they tensors or objects that have `.pixels`."""
    for batch in images:
        yield batch if isinstance(batch, Tensor) else batch.pixels


def counted(batch: Any) -> int:
    """Return how many images of a batch count: none of one that stands in for an empty part."""
    return 0 if getattr(batch, "spare", False) else len(getattr(batch, "pixels", batch))


def shared_pixels(images: Iterable[Any]) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """Yield the pixels of this process's part of each batch, and what gathers rows of that part over processes."""
    team = team_of(images)
    for batch in images:

        def whole(rows: Tensor, n: int = counted(batch)) -> Tensor:
            return team.whole(rows[:n])

        yield next(pixels_of([batch])), whole


def trajectory_size(flow: DepthFlow) -> int:
    """Return how many numbers the states of one image are, layers 0..L."""
    return (flow.depth + 1) * flow.layout.n_tokens * flow.width


def layers_of(
    flow: DepthFlow, tokens: Float[Tensor, "batch tokens width"], start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, Tensor]]:
    """Yield (layer, states) from `start` to `stop`, both included; only the current states are held."""
    stop = flow.depth if stop is None else stop
    if not 0 <= start <= stop <= flow.depth:
        raise LayerError(f"a rollout goes from a layer to a later one in 0..{flow.depth}, not {start} to {stop}")
    # Sums over a strided view round differently: a layer taken from a trajectory must continue bit by bit.
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
        Called as `on_state(layer, states)` at every layer from `start` to `stop`. With it nothing is
        kept but the last state, so that any number of layers streams in the memory of one.

    Returns
    -------
    Trajectory
        Layers `start` to `stop`; only layer `stop` where `on_state` is given.
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
    # Without gradients each state is written to its place at once: half the memory of stacking them at the end.
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
    """Return the states at layer `stop`, by default the last, alone: the others are not kept."""
    return rollout(flow, tokens, start, stop, on_state=lambda layer, states: None).states[:, 0]


class Stitched:
    """One flow up to a layer, another after it.

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
        """Embed as the first flow does; with `at` = 0 the second flow runs from there."""
        return self.first.embed(pixels)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Step as the first flow below layer `at`, as the second from there on."""
        return (self.first if layer < self.at else self.second).step(tokens, layer)

    def readout(self, tokens: Tensor) -> Tensor:
        """Read out as the second flow does."""
        return self.second.readout(tokens)


def stitch(first: DepthFlow, second: DepthFlow, at: int) -> Stitched:
    """Return the flow that follows `first` from layer 0 to `at` and `second` from `at` to its end.

    Parameters
    ----------
    first, second
        Flows of the same tokens and width.
    at
        The layer of the seam; with 0 only the embedding is `first`'s.
    """
    if (first.layout, first.width) != (second.layout, second.width):
        raise LayoutError(
            f"only flows with the same tokens can be stitched, not {first.layout} of width {first.width} "
            f"and {second.layout} of width {second.width}"
        )
    if not 0 <= at <= min(first.depth, second.depth):
        raise LayerError(
            f"flows of depths {first.depth} and {second.depth} can be stitched at layers 0 to "
            f"{min(first.depth, second.depth)}, not {at}"
        )
    return Stitched(first, second, at)
