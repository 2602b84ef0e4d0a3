"""The motion of a batch through depth, and measures of it that share one pass over the images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.device import doubled
from raptor.flow import DepthFlow, counted, layers_of, pixels_of, trajectory_size
from raptor.memory import keep_freed_memory
from raptor.processes import ALONE, Team, team_of
from raptor.tokens import TokenLayout

State = Float[Tensor, "batch tokens width"]


class Motion:
    """States of a batch at the layers 0..L, and what measures share of them, computed when it is first asked for.

    Parameters
    ----------
    states
        One tensor a layer.
    layout
        Where the token groups stand.
    label
        Class of each image, or None; of several processes, of the images of all.
    team
        Processes that have a part of the batch each. Whatever has a row a token is of this process's part; group means,
        and what `whole` gives, are of the images of all.
    own
        How many of the images count; by default all.
    """

    def __init__(
        self,
        states: Sequence[State],
        layout: TokenLayout,
        label: Tensor | None = None,
        team: Team = ALONE,
        own: int | None = None,
    ):
        self.states, self.layout, self.label, self.team = list(states), layout, label, team
        counts = team.all(len(self.states[0]) if own is None else own)
        self.own, self.n = counts[team.index], sum(counts)
        self.first = sum(counts[: team.index])  # place of this process's first image in the whole batch

    def whole(self, rows: Float[Tensor, "batch *shape"]) -> Float[Tensor, "images *shape"]:
        """Return the rows of all processes' images, given those of this one's."""
        return self.team.whole(rows[: self.own])

    @property
    def rounding(self) -> float:
        """Relative rounding of the states: what is below it in doubled numbers is noise."""
        return torch.finfo(self.states[0].dtype).eps

    @cached_property
    def norms(self) -> Float[Tensor, "batch layers tokens"]:
        """|x_l|."""
        return torch.stack([states.norm(dim=-1) for states in self.states], dim=1)

    @cached_property
    def directions(self) -> list[State]:
        """x_l / |x_l|, one tensor a layer."""
        return [normalize(states, dim=-1) for states in self.states]

    @cached_property
    def updates(self) -> list[State]:
        """Differences of the directions of layers l + 1 and l, one tensor a step."""
        return [after - before for before, after in zip(self.directions, self.directions[1:], strict=False)]

    @cached_property
    def update_norms(self) -> Float[Tensor, "batch steps tokens"]:
        """Lengths of the updates: chords of the sphere."""
        return torch.stack([update.norm(dim=-1) for update in self.updates], dim=1)

    @cached_property
    def angles(self) -> Float[Tensor, "batch steps tokens"]:
        """Angles between the directions of layers l and l + 1, of small ones too: arccos would lose them."""
        sums = zip(self.directions, self.directions[1:], strict=False)
        return 2 * torch.atan2(
            self.update_norms, torch.stack([(one + other).norm(dim=-1) for one, other in sums], dim=1)
        )

    @cached_property
    def group_means(self) -> dict[str, Float[Tensor, "batch layers width"]]:
        """Mean state of each group at each layer, in double precision on the CPU."""
        return {
            group: self.whole(doubled(torch.stack([states[:, where].mean(dim=1) for states in self.states], 1)).cpu())
            for group, where in self.layout.slices.items()
        }

    @cached_property
    def unit_means(self) -> dict[str, Float[Tensor, "batch layers width"]]:
        """Those means on the unit sphere."""
        return {group: normalize(means, dim=-1) for group, means in self.group_means.items()}


@runtime_checkable
class Measure(Protocol):
    """Something that is computed of the motions of all images, one batch at a time."""

    def add(self, motion: Motion) -> None:
        """Take in a batch."""


HELD = 2**28  # bytes of states that are held at a time


@torch.no_grad()
def observe(flow: DepthFlow, images: Iterable[Any], *measures: Measure) -> None:
    """Run a flow over images once and give all motions to all measures; a few images are held at a time.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, or whatever `load_images` gives.
    *measures
        What takes in the motion of every batch; each is asked for its result afterwards.
    """
    rows = max(1, HELD // (4 * trajectory_size(flow)))
    keep_freed_memory()  # states, directions and updates of every batch are as large as those of the last
    team = team_of(images)
    if team.n > 1:
        images = images.in_batches(rows)  # type: ignore[attr-defined]
    for given in images:
        (pixels,), label, own = pixels_of([given]), getattr(given, "label", None), counted(given)
        label = None if label is None else team.whole(label[:own])
        for start in range(0, len(pixels), rows):
            part = slice(start, start + rows)
            states = [states for _, states in layers_of(flow, flow.embed(pixels[part]))]
            labels = label if label is None or team.n > 1 else label[part]
            motion = Motion(states, flow.layout, labels, team, own if team.n > 1 else None)
            for measure in measures:
                measure.add(motion)
