"""Several processes that go through images together, as torchrun or `accelerate launch` start them.

Each takes its part of every batch and runs the model on it. What is measured of an image is small; it is gathered in
the order of the images, so that every process goes on with what one alone would have had.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # whoever asks for help or for this process's place needs no torch
    from torch import Tensor

Item = TypeVar("Item")


@dataclass(frozen=True)
class Team:
    """This process among those that work together.

    Parameters
    ----------
    index, n
        Which one it is, of how many.
    """

    index: int = 0
    n: int = 1

    def own(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return this process's part; the parts of all follow one another."""
        return items[len(items) * self.index // self.n : len(items) * (self.index + 1) // self.n]

    def all(self, value: Item) -> list[Item]:
        """Return what every process has, in their order."""
        if self.n == 1:
            return [value]
        from torch import distributed

        found: list[Any] = [None] * self.n
        distributed.all_gather_object(found, value, group=_group())
        return found

    def whole(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, one after the other; those of several are on the CPU."""
        if self.n == 1:
            return rows
        import torch

        return torch.cat(self.all(rows.detach().cpu()))

    def summed(self, values: Tensor) -> Tensor:
        """Return the sum over processes."""
        if self.n == 1:
            return values
        from torch import distributed

        total = values.cpu().clone()
        distributed.all_reduce(total, group=_group())
        return total.to(values.device)


ALONE = Team()


def team() -> Team:
    """Return the team that this process was started in; alone where it was started alone."""
    return Team(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def is_first_process() -> bool:
    """Whether this is the first, or only, of the processes that torchrun or accelerate started."""
    return team().index == 0


def team_of(images: Any) -> Team:
    """Return the team that goes through a set of images together; whoever is given plain batches is alone."""
    found = getattr(images, "team", ALONE)
    return found if isinstance(found, Team) else ALONE


@cache
def _group() -> Any:
    """Return the group in which tensors on the CPU are exchanged, whatever device the model is on."""
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group()
    return distributed.new_group(backend="gloo")
