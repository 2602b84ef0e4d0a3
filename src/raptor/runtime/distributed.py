"""Groups of processes that torchrun or `accelerate launch` started.

Each process runs the model on its shard of every batch. The small measurements of each image are gathered in the order
of the images, so that every process has the same values as a single process would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # `raptor --help` imports this module without torch
    from torch import Tensor

    from raptor.core.batches import ImageSource
    from raptor.core.processes import Processes

Item = TypeVar("Item")


@dataclass(frozen=True)
class ProcessGroup:
    """The place of this process in its group.

    Parameters
    ----------
    rank, world_size
        Index of this process, and number of processes.
    """

    rank: int = 0
    world_size: int = 1

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the contiguous shard of this process."""
        return items[len(items) * self.rank // self.world_size : len(items) * (self.rank + 1) // self.world_size]

    def all_gather_objects(self, value: Item) -> list[Item]:
        """Return the values of all processes, by rank."""
        if self.world_size == 1:
            return [value]
        from torch import distributed

        gathered: list[Any] = [None] * self.world_size
        distributed.all_gather_object(gathered, value, group=_group())
        return gathered

    def all_gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, concatenated by rank; on the CPU if there are several processes."""
        if self.world_size == 1:
            return rows
        import torch

        return torch.cat(self.all_gather_objects(rows.detach().cpu()))

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum over processes."""
        if self.world_size == 1:
            return values
        from torch import distributed

        total = values.cpu().clone()
        distributed.all_reduce(total, group=_group())
        return total.to(values.device)


SINGLE_PROCESS = ProcessGroup()


def process_group() -> ProcessGroup:
    """Return the group that this process was started in, from RANK and WORLD_SIZE; a group of one by default."""
    return ProcessGroup(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def is_restarted() -> bool:
    """Return whether torchrun started this process again after a failure (`--max-restarts`)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0


def is_main_process() -> bool:
    """Return whether this process has rank 0."""
    return process_group().rank == 0


def group_of(images: ImageSource) -> Processes:
    """Return the process group of a set of images; plain batches have a group of one."""
    from raptor.core.batches import ImageSet  # imports torch

    return images.process_group if isinstance(images, ImageSet) else SINGLE_PROCESS


def sharded_pixels(images: ImageSource) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """Yield the pixels of this process's shard of each batch, and a function that gathers rows over processes."""
    from raptor.core.batches import as_image_set, n_real

    images = as_image_set(images)
    process_group = images.process_group
    for batch in images:

        def gathered(rows: Tensor, n: int = n_real(batch)) -> Tensor:
            return process_group.all_gather(rows[:n])

        yield batch.pixels, gathered


@cache
def _group() -> Any:
    """Return the gloo group that exchanges tensors on the CPU; initialise torch.distributed if necessary."""
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group()
    return distributed.new_group(backend="gloo")
