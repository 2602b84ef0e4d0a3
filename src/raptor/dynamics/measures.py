"""States of a batch at all layers, and one pass over the images that all measures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.core.batches import ImageSource, as_image_set, n_real
from raptor.core.flow import DepthFlow, layers_of, trajectory_size
from raptor.core.processes import Processes
from raptor.core.tokens import TokenLayout
from raptor.dynamics.angles import angle_apart
from raptor.dynamics.unread import last_layers
from raptor.runtime.device import doubled
from raptor.runtime.distributed import SINGLE_PROCESS

State = Float[Tensor, "batch tokens width"]
STATE_BYTES = 2**28  # bytes of states in memory at a time


class StateBatch:
    """States of a batch at the layers 0..L, and quantities that measures share, each computed on first use.

    Parameters
    ----------
    states
        One tensor per layer, of shape (batch, tokens, width).
    layout
        Positions of the token groups.
    label
        Class of each image, or None; with several processes, for the images of all of them.
    process_group
        Processes that have one part of the batch each. Quantities by token are for this process's part; group means,
        and what `all_gather` returns, are for the images of all processes.
    own
        Number of images of this process that count; all by default.
    last
        By token group, the last layer that counts: L, or L - 1 for tokens that the model's head does not read at L.
    """

    def __init__(
        self,
        states: Sequence[State],
        layout: TokenLayout,
        label: Tensor | None = None,
        process_group: Processes = SINGLE_PROCESS,
        own: int | None = None,
        last: Mapping[str, int] | None = None,
    ):
        self.states, self.layout, self.label, self.process_group = list(states), layout, label, process_group
        self.last = {group: (last or {}).get(group, len(self.states) - 1) for group in layout.slices}
        counts = process_group.all_gather_objects(len(self.states[0]) if own is None else own)
        self.own, self.n = counts[process_group.rank], sum(counts)
        self.first = sum(counts[: process_group.rank])  # index of this process's first image in the whole batch

    def all_gather(self, rows: Float[Tensor, "batch *shape"]) -> Float[Tensor, "images *shape"]:
        """Return the rows (one per image) of all processes, given those of this process."""
        return self.process_group.all_gather(rows[: self.own])

    @property
    def rounding(self) -> float:
        """Relative rounding error of the states: smaller differences in double precision are noise."""
        return torch.finfo(self.states[0].dtype).eps

    @cached_property
    def norms(self) -> Float[Tensor, "batch layers tokens"]:
        """Norms |x_l|."""
        return torch.stack([states.norm(dim=-1) for states in self.states], dim=1)

    @cached_property
    def directions(self) -> list[State]:
        """Directions x_l / |x_l|, one tensor per layer; 0 for a state of 0."""
        lengths = self.norms.clamp(min=torch.finfo(self.norms.dtype).tiny).unbind(dim=1)
        return [states / length[..., None] for states, length in zip(self.states, lengths, strict=True)]

    @cached_property
    def updates(self) -> list[State]:
        """Differences between the directions at the layers l + 1 and l, one tensor per step."""
        return [after - before for before, after in zip(self.directions, self.directions[1:], strict=False)]

    @cached_property
    def update_norms(self) -> Float[Tensor, "batch steps tokens"]:
        """Norms of the updates."""
        return torch.stack([update.norm(dim=-1) for update in self.updates], dim=1)

    @cached_property
    def angles(self) -> Float[Tensor, "batch steps tokens"]:
        """Angles between the directions at the layers l and l + 1, in radians; arccos would lose small ones."""
        return angle_apart(self.update_norms, self.norms[:, :-1], self.norms[:, 1:])

    @cached_property
    def group_means(self) -> dict[str, Float[Tensor, "batch layers width"]]:
        """Mean state of each token group at each layer, in double precision on the CPU."""
        return {
            group: self.all_gather(
                doubled(torch.stack([states[:, where].mean(dim=1) for states in self.states], 1)).cpu()
            )
            for group, where in self.layout.slices.items()
        }

    @cached_property
    def unit_means(self) -> dict[str, Float[Tensor, "batch layers width"]]:
        """Group means, normalised to length 1."""
        return {group: normalize(means, dim=-1) for group, means in self.group_means.items()}


@runtime_checkable
class Measure(Protocol):
    """Something that is computed from the states of all images, one batch at a time."""

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""


@torch.no_grad()
def run_measures(flow: DepthFlow, images: ImageSource, *measures: Measure) -> None:
    """Run a flow over the images once and give the states to all measures; a few images are in memory at a time.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, or what `load_images` returned.
    *measures
        Objects whose `update` receives every batch of states; ask each for its result afterwards.
    """
    last = last_layers(flow)
    rows = max(1, STATE_BYTES // (4 * trajectory_size(flow)))
    images = as_image_set(images)
    process_group = images.process_group
    if process_group.world_size > 1:
        images = images.with_batch_size(rows)
    for batch in images:
        pixels, own = batch.pixels, n_real(batch)
        label = None if batch.label is None else process_group.all_gather(batch.label[:own])
        for start in range(0, len(pixels), rows):
            part = slice(start, start + rows)
            states = [states for _, states in layers_of(flow, flow.embed(pixels[part]))]
            labels = label if label is None or process_group.world_size > 1 else label[part]
            state_batch = StateBatch(
                states, flow.layout, labels, process_group, own if process_group.world_size > 1 else None, last
            )
            for measure in measures:
                measure.update(state_batch)
