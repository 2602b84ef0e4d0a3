"""Phases: contiguous runs of layers, written as lengths, `7-3-2`.

A layer map, `1,2,1,3`, is the general case: a block may come again in a later run. Phases are its contiguous case.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Protocol, runtime_checkable

from raptor.errors import PhaseError


@dataclass(frozen=True)
class Phases:
    """A partition of the layers 1..L into contiguous phases.

    `Phases((7, 3, 2))` means the layers 1-7, 8-10 and 11-12. Layer 0, the embedding, is in none.

    Parameters
    ----------
    lengths
        Number of layers of each phase, each at least 1.
    """

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths or any(length < 1 for length in self.lengths):
            raise PhaseError(f"phase lengths must be at least 1, as in 7-3-2; these are {self.lengths}")

    @classmethod
    def parse(cls, text: str) -> Phases:
        """Read `"7-3-2"`, or the block of every layer, `"1,2,1,3"`."""
        # The bounds on digits keep a hostile string from becoming a huge integer.
        if re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})+", text, flags=re.ASCII):
            return layer_map([int(block) for block in text.split(",")])
        if not re.fullmatch(r"[0-9]{1,4}(-[0-9]{1,4})*", text, flags=re.ASCII):
            raise PhaseError(f"phases {text!r} are not lengths joined by '-', such as 7-3-2")
        return cls(tuple(int(length) for length in text.split("-")))

    @classmethod
    def from_boundaries(cls, boundaries: list[int] | tuple[int, ...], depth: int) -> Phases:
        """Build phases from the last layer of every phase but the last: `([7, 10], 12)` is 7-3-2."""
        ends = [0, *boundaries, depth]
        return cls(tuple(end - start for start, end in pairwise(ends)))

    @classmethod
    def even(cls, depth: int, k: int) -> Phases:
        """Divide layers into phases of nearly equal length."""
        if not 1 <= k <= depth:
            raise PhaseError(f"{depth} layers cannot be divided into {k} phases")
        return cls.from_boundaries([round(depth * index / k) for index in range(1, k)], depth)

    @classmethod
    def random(cls, depth: int, k: int, seed: int, min_length: int = 1) -> Phases:
        """Draw a partition of `depth` layers into `k` phases uniformly at random.

        Subtracting `min_length - 1` from every length maps them one to one to compositions of
        `depth - k (min_length - 1)` into `k` positive parts, which are the (k-1)-subsets of the gaps.
        """
        free = depth - k * (min_length - 1)
        if k < 1 or min_length < 1 or free < k:
            raise PhaseError(f"{depth} layers cannot be divided into {k} phases of at least {min_length} layers")
        cuts = sorted(random.Random(seed).sample(range(1, free), k - 1))
        short = cls.from_boundaries(cuts, free)
        return cls(tuple(length + min_length - 1 for length in short.lengths))

    @property
    def k(self) -> int:
        """Number of phases."""
        return len(self.lengths)

    @property
    def depth(self) -> int:
        """Number of layers L."""
        return sum(self.lengths)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Last layer of every phase but the last: (7, 10) for 7-3-2."""
        return tuple(accumulate(self.lengths))[:-1]

    @property
    def ranges(self) -> tuple[range, ...]:
        """Layers of each phase: range(1, 8), range(8, 11), range(11, 13) for 7-3-2."""
        ends = tuple(accumulate(self.lengths, initial=0))
        return tuple(range(start + 1, end + 1) for start, end in pairwise(ends))

    @property
    def layers(self) -> tuple[Sequence[int], ...]:
        """Layers of each block: the ranges, unless a block comes again (see `LayerMap`)."""
        return self.ranges

    def block_of(self, layer: int) -> int:
        """Return the index, from 0, of the block that computes `layer` (1..L)."""
        return self.phase_of(layer)

    def phase_of(self, layer: int) -> int:
        """Return the index, from 0, of the contiguous run of layers that `layer` (1..L) is in."""
        for index, layers in enumerate(self.ranges):
            if layer in layers:
                return index
        raise PhaseError(f"layer {layer} is outside 1..{self.depth}, the layers of phases {self}")

    def check_depth(self, depth: int) -> Phases:
        """Return these phases; raise a PhaseError if they do not cover `depth` layers."""
        if self.depth != depth:
            raise PhaseError(f"phases '{self}' have {self.depth} layers in total, but the model has {depth}")
        return self

    def __str__(self) -> str:
        return "-".join(str(length) for length in self.lengths)


@dataclass(frozen=True)
class LayerMap(Phases):
    """An assignment of layers to blocks in which a block comes again after another one; see `layer_map`.

    Its phases are the contiguous runs of layers with the same block, so there are more phases than blocks.

    Parameters
    ----------
    lengths
        Number of layers of each run.
    blocks
        Index, from 0, of the block of each run.
    """

    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.blocks) != len(self.lengths) or set(self.blocks) != set(range(max(self.blocks, default=-1) + 1)):
            raise PhaseError(
                f"{len(self.lengths)} runs need one block each, numbered from 0 without gaps, not {self.blocks}"
            )

    @property
    def k(self) -> int:
        """Number of blocks."""
        return max(self.blocks) + 1

    @property
    def layers(self) -> tuple[Sequence[int], ...]:
        """Layers of each block."""
        every = range(1, self.depth + 1)
        return tuple(tuple(layer for layer in every if self.block_of(layer) == block) for block in range(self.k))

    def block_of(self, layer: int) -> int:
        """Return the index, from 0, of the block that computes `layer` (1..L)."""
        return self.blocks[self.phase_of(layer)]

    def __str__(self) -> str:
        return ",".join(str(self.block_of(layer) + 1) for layer in range(1, self.depth + 1))


def layer_map(blocks: Sequence[int]) -> Phases:
    """Return the assignment of every layer to a block: `Phases` where blocks are contiguous, else a `LayerMap`.

    Blocks are numbered again in the order of their first layers, so maps that differ only in names are equal.

    Parameters
    ----------
    blocks
        Any number for the block of each of the layers 1..L.
    """
    names = {block: index for index, block in enumerate(dict.fromkeys(blocks))}
    runs = [(names[block], len(list(run))) for block, run in groupby(blocks)]
    lengths, order = tuple(length for _, length in runs), tuple(block for block, _ in runs)
    return Phases(lengths) if len(order) == len(names) else LayerMap(lengths, order)


def shuffled_map(phases: Phases, seed: int) -> Phases:
    """Assign layers to blocks at random, without contiguity; each block keeps its number of layers.

    The map is uniform over all such assignments that are not contiguous.

    Parameters
    ----------
    phases
        Phases whose lengths are kept; at least two blocks, one of which has at least two layers.
    seed
        Seed of the draw.
    """
    blocks = [phases.block_of(layer) for layer in range(1, phases.depth + 1)]
    if phases.k < 2 or phases.depth == phases.k:
        raise PhaseError(
            f"phases '{phases}' have no assignment that is not contiguous; give two blocks and more layers"
        )
    draw = random.Random(seed)
    while True:
        draw.shuffle(blocks)
        if isinstance(found := layer_map(blocks), LayerMap):
            return found


@runtime_checkable
class HasPhases(Protocol):
    """Anything with phases of its own, such as what `find_phases` returned or a surrogate."""

    @property
    def phases(self) -> Phases:
        """The phases."""
        ...


# What a parameter `phases` accepts.
PhasesLike = Phases | str | HasPhases


def as_phases(value: PhasesLike) -> Phases:
    """Return phases from any form in which they can be given.

    Parameters
    ----------
    value
        `Phases`, text such as `"7-3-2"`, or anything with an attribute `phases`, such as what `find_phases` returned.
    """
    if isinstance(value, str):
        return Phases.parse(value)
    phases = value if isinstance(value, Phases) else getattr(value, "phases", None)
    if not isinstance(phases, Phases):
        raise PhaseError(
            f"phases are text such as '7-3-2', Phases, or what find_phases returned, not {type(value).__name__}"
        )
    return phases
