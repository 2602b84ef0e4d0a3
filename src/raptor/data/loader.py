"""Batches of items from worker processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from raptor.errors import DataError, one_line
from raptor.runtime.faults import RETRY


def loaded(dataset: Dataset, batches: Iterable[list[int]], workers: int) -> Iterator[list[Any]]:
    """Yield the items of each batch; raise a DataError if a worker dies.

    Parameters
    ----------
    dataset
        The items.
    batches
        Indices of the items of each batch.
    workers
        Number of worker processes; with 0, items are loaded in this process.
    """
    source = _started(
        DataLoader(
            dataset, batch_sampler=batches, num_workers=workers, collate_fn=_as_is, worker_init_fn=_leave_signals,
            # The loader draws a seed when it starts; with its own generator the global one does not change.
            generator=torch.Generator(),
        )
    )  # fmt: skip
    while True:
        try:
            items = next(source)
        except StopIteration:
            return
        except (RuntimeError, ConnectionError, EOFError) as error:
            # The last two are raised if the worker died while it was sending data.
            if isinstance(error, RuntimeError) and not str(error).startswith("DataLoader worker (pid"):
                raise
            raise DataError(
                f"a worker process that decodes images died ({one_line(error)}), probably because the machine is out "
                f"of memory. Finished results are kept; free some memory and {RETRY}"
            ) from error
        yield items


def _started(loader: DataLoader) -> Iterator[list[Any]]:
    """Start the workers and restore the signal handler that torch installs.

    torch's handler raises an exception at the moment a worker dies, possibly in the middle of writing a checkpoint. The
    loader also notices a dead worker when the next batch is requested.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCHLD"):
        return iter(loader)
    before = signal.getsignal(signal.SIGCHLD)
    source = iter(loader)
    signal.signal(signal.SIGCHLD, before)
    return source


def _leave_signals(worker: int) -> None:
    """Ignore SIGTERM and Ctrl-C in a worker: all processes get them, and the main process must save first."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _as_is(items: list[Any]) -> list[Any]:
    return items
