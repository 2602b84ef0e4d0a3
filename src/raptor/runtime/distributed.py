"""Groups of processes that torchrun or `accelerate launch` started.

Each process runs the model on its shard of every batch. The small measurements of each image are gathered in the order
of the images, so that every process has the same values as a single process would.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from raptor.errors import JoinError, one_line

if TYPE_CHECKING:  # `raptor --help` imports this module without torch
    from torch import Tensor
    from torch.distributed.distributed_c10d import Store

    from raptor.core.batches import ImageSource
    from raptor.core.processes import Processes

Item = TypeVar("Item")

JOIN_TIMEOUT = float(os.environ.get("RAPTOR_JOIN_TIMEOUT", "600"))  # seconds to wait for the other processes at start


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


def join_processes() -> dict[str, Any]:
    """Wait for the other processes; return the arguments that `torch.distributed.init_process_group` needs.

    torchrun keeps one store for all restarts. It still has the addresses of the processes that were killed, and gloo
    and NCCL would connect to them: they fail, or wait for hours. So each start has a part of the store to itself.

    Returns
    -------
    dict
        `store`, `rank` and `world_size`; empty if there is nothing to wait for, or no store that is known.

    Raises
    ------
    JoinError
        If another process does not join within `JOIN_TIMEOUT` seconds.
    """
    from torch import distributed
    from torch.distributed.distributed_c10d import PrefixStore, default_pg_timeout
    from torch.distributed.rendezvous import rendezvous

    alone = process_group().world_size == 1 or distributed.is_initialized()
    if alone or not {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        return {}
    try:
        store, rank, world_size = next(rendezvous("env://", timeout=timedelta(seconds=JOIN_TIMEOUT)))
        name = _name_of_start(store, rank, world_size)
    except distributed.DistError as error:
        raise _not_joined("another process", one_line(error)) from error
    store.set_timeout(default_pg_timeout)
    return {"store": PrefixStore(name, store), "rank": rank, "world_size": world_size}


def _name_of_start(store: Store, rank: int, world_size: int) -> str:
    """Return a new name that rank 0 chooses and all processes that are now alive agree on.

    The number of restarts cannot be this name: on several machines, each torchrun counts its own. A process asks rank 0
    under an identifier of its own, because it could not tell an answer to a killed process from its own answer.
    """
    own = uuid4().hex
    if rank > 0:
        store.set(f"raptor/asks/{rank}", own)
        name = store.get(f"raptor/answer/{own}").decode()
        store.set(f"raptor/joined/{name}/{rank}", "")
        return name
    missing, until = [*range(1, world_size)], time.monotonic() + JOIN_TIMEOUT
    while missing:
        for other in missing:
            if store.check([f"raptor/asks/{other}"]):  # may be from a killed process, which never joins
                store.set(f"raptor/answer/{store.get(f'raptor/asks/{other}').decode()}", own)
        missing = [other for other in missing if not store.check([f"raptor/joined/{own}/{other}"])]
        if missing and time.monotonic() > until:
            raise _not_joined(f"rank {', '.join(map(str, missing))} of {world_size} processes")
        time.sleep(0.02 if missing else 0)
    return own


def _not_joined(who: str, why: str = "") -> JoinError:
    return JoinError(
        f"{who} did not join this run within {JOIN_TIMEOUT:g} seconds{f' ({why})' if why else ''}; look for its error "
        "message. If it only starts slowly, set RAPTOR_JOIN_TIMEOUT to more seconds"
    )


@cache
def _group() -> Any:
    """Return the gloo group that exchanges tensors on the CPU; initialise torch.distributed if necessary."""
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group(**join_processes())
    return distributed.new_group(backend="gloo")
