"""The rotation null: the same updates, those of each layer turned by a random rotation of their own.

Sizes of updates, and how alike they are across tokens and images, stay as measured. What they have to do with the state
that they are added to, and with the updates of other layers, is gone: as in a network of independent random layers.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.tokens import OUTLIER
from raptor.dynamics.measures import StateBatch

IMAGES, TOKENS = 8, 4  # kept: the first images, and tokens of a group that are evenly spaced
DRAWS = 399  # the smallest attainable p, 1 / 400, is below 0.05 over the number of claims
TOGETHER = 2**22  # numbers in the random trajectories that are in memory at a time

# By token group: draws, images, layers, tokens, width; groups differ in layers and tokens.
Paths = dict[str, Float[Tensor, "_ _ _ _ _"]]


class RotationNull:
    """Some trajectories, and random ones with the same updates in other directions. A measure: `update` adds images."""

    def __init__(self) -> None:
        self.n = 0
        self.last: dict[str, int] = {}
        self._kept: dict[str, list[Tensor]] = {}  # some tokens of each group, and last their mean

    def update(self, batch: StateBatch) -> None:
        """Add a batch, until there are enough images."""
        room = min(batch.n, IMAGES - self.n)
        if room <= 0:
            return
        self.n += room
        self.last = batch.last
        for group, where in batch.layout.slices.items():
            if group == OUTLIER:  # no claim is about outliers
                continue
            kept = torch.arange(where.start, where.stop)
            kept = kept[torch.linspace(0, len(kept) - 1, min(TOKENS, len(kept))).round().long()]
            tokens = batch.all_gather(torch.stack([states[:, kept] for states in batch.states], dim=1))[:room]
            both = torch.cat([tokens.cpu().double(), batch.group_means[group][:room, :, None]], dim=2)
            self._kept.setdefault(group, []).append(both)

    @property
    def measured(self) -> tuple[Paths, Paths]:
        """Trajectories of tokens and of group means, as measured; one draw."""
        return self._split(self._together()[None])

    def draws(self, n: int | None = None, seed: int = 0) -> Iterator[tuple[Paths, Paths]]:
        """Yield random trajectories of tokens and of group means, several draws at a time.

        Parameters
        ----------
        n
            Number of random trajectories; 399 by default.
        seed
            Seed of the rotations.
        """
        n = DRAWS if n is None else n
        generator = torch.Generator().manual_seed(seed)
        states = self._together()
        at_once = max(1, TOGETHER // states.numel())
        for start in range(0, n, at_once):
            yield self._split(rotated(states, min(at_once, n - start), generator))

    def _together(self) -> Float[Tensor, "images layers tokens width"]:
        return torch.cat([torch.cat(parts) for parts in self._kept.values()], dim=2)

    def _split(self, states: Float[Tensor, "draws images layers tokens width"]) -> tuple[Paths, Paths]:
        """Return the trajectories of tokens and of means by group, up to the last layer that counts."""
        sizes = [parts[0].shape[2] for parts in self._kept.values()]
        own = {
            group: part[:, :, : self.last[group] + 1]
            for group, part in zip(self._kept, states.split(sizes, dim=3), strict=True)
        }
        return (
            {group: part[..., :-1, :] for group, part in own.items()},
            {group: part[..., -1:, :] for group, part in own.items()},
        )


def rotated(
    states: Float[Tensor, "images layers tokens width"], draws: int, generator: torch.Generator
) -> Float[Tensor, "draws images layers tokens width"]:
    """Return trajectories from the same start, with the updates of each layer turned by a random rotation of its own.

    Parameters
    ----------
    states
        Measured trajectories.
    draws, generator
        Number of random trajectories for each, and the source of randomness.
    """
    updates = states.diff(dim=1)[None]
    turned = rotate(updates, draws, generator)
    start = states[None, :, :1].expand(draws, -1, -1, -1, -1)
    return torch.cat([start, start + turned.cumsum(dim=2)], dim=2)


def rotate(
    vectors: Float[Tensor, "1 images steps tokens width"], draws: int, generator: torch.Generator
) -> Float[Tensor, "draws images steps tokens width"]:
    """Turn vectors by a random orthogonal map for each draw and step: random signs and random phases, three times.

    Phases act on frequencies. This mixes all features, and costs far less than dense matrices.
    """
    width, steps = vectors.shape[-1], vectors.shape[2]
    for _ in range(3):
        signs = torch.randint(2, (draws, 1, steps, 1, width), generator=generator) * 2.0 - 1
        phases = torch.rand(draws, 1, steps, 1, width // 2 + 1, generator=generator, dtype=torch.float64) * 2 * torch.pi
        # The first and, for an even width, the last frequency of a real signal are real.
        for real in (0, -1) if width % 2 == 0 else (0,):
            phases[..., real] = (phases[..., real] > torch.pi) * torch.pi
        turned = torch.fft.rfft(vectors * signs) * torch.polar(torch.ones_like(phases), phases)
        vectors = torch.fft.irfft(turned, n=width)
    return vectors
