"""The interface of a group of processes that share images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

Item = TypeVar("Item")


@runtime_checkable
class Processes(Protocol):
    """What a measure needs of a process group; `raptor.runtime.distributed.ProcessGroup` implements it."""

    @property
    def rank(self) -> int:
        """Index of this process."""

    @property
    def world_size(self) -> int:
        """Number of processes."""

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the contiguous shard of this process."""

    def all_gather_objects(self, value: Item) -> list[Item]:
        """Return the values of all processes, by rank."""

    def all_gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, concatenated by rank."""

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum over processes."""


class SingleProcess:
    """A group of one process."""

    rank, world_size = 0, 1

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return all items."""
        return items

    def all_gather_objects(self, value: Item) -> list[Item]:
        """Return the value in a list."""
        return [value]

    def all_gather(self, rows: Tensor) -> Tensor:
        """Return the rows."""
        return rows

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the values."""
        return values
