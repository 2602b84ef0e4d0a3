"""Items that worker processes decode, in the order of their batches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from raptor.errors import DataError, one_line
from raptor.faults import AGAIN


def loaded(dataset: Dataset, batches: Iterable[list[int]], workers: int) -> Iterator[list[Any]]:
    """Yield the items of each batch; a worker that dies is an error that says what to do.

    Parameters
    ----------
    dataset
        Item by item.
    batches
        Indices, a list a batch.
    workers
        Processes beside this one; 0 for none.
    """
    source = _started(
        DataLoader(
            dataset, batch_sampler=batches, num_workers=workers, collate_fn=_as_is, worker_init_fn=_leave_sigterm,
            # Of its own: it draws a number when it starts, and noise of a step must not depend on where a run began.
            generator=torch.Generator(),
        )
    )  # fmt: skip
    while True:
        try:
            items = next(source)
        except StopIteration:
            return
        except (RuntimeError, ConnectionError, EOFError) as error:
            # The last two where it died while it handed over what it had decoded.
            if isinstance(error, RuntimeError) and not str(error).startswith("DataLoader worker (pid"):
                raise
            raise DataError(
                f"a process that decodes images has died ({one_line(error)}), most often for want of memory; what was "
                f"finished is kept: free some and {AGAIN}"
            ) from error
        yield items


def _started(loader: DataLoader) -> Iterator[list[Any]]:
    """Start the workers, and leave signals as they were.

    torch would answer the death of a worker by an exception wherever this process happens to be, be it in the middle
    of a checkpoint; when the next batch is asked for it is noticed as well.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCHLD"):
        return iter(loader)
    before = signal.getsignal(signal.SIGCHLD)
    source = iter(loader)
    signal.signal(signal.SIGCHLD, before)
    return source


def _leave_sigterm(worker: int) -> None:
    """Let the main process alone answer SIGTERM, which schedulers send to all: it saves, then ends its workers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _as_is(items: list[Any]) -> list[Any]:
    return items
