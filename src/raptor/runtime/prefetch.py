"""Batches that are prepared in a thread: while a step runs on a GPU, the next batches move to it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch

T = TypeVar("T")
AHEAD = 2  # batches that wait on the device


def on_device(batch: Any, device: torch.device) -> Any:
    """Return a batch whose tensors are on a device; those that move to a GPU go through pinned memory.

    Parameters
    ----------
    batch
        A tensor, or a dataclass with tensors.
    device
        Where to.
    """
    if isinstance(batch, torch.Tensor):
        pinned = batch.pin_memory() if device.type == "cuda" and batch.device.type == "cpu" else batch
        return pinned.to(device, non_blocking=True)
    if not is_dataclass(batch) or isinstance(batch, type):
        return batch
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    moved: dict[str, Any] = {
        name: on_device(value, device) for name, value in values.items() if isinstance(value, torch.Tensor)
    }
    return replace(batch, **moved)


def prefetched(source: Iterator[T], device: torch.device, always: bool = False) -> Generator[T, None, None]:
    """Yield the same batches in the same order, moved to a device ahead of time.

    On a CPU there is nothing to move, so batches are yielded as they come.

    Parameters
    ----------
    source
        Batches; read in a thread.
    device
        Device of the training.
    always
        Use a thread on a CPU too.
    """
    if device.type == "cpu" and not always:
        yield from source
        return
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=AHEAD)
    stopped = threading.Event()

    def read() -> None:
        kind: tuple[str, Any] = ("end", None)
        try:
            for batch in source:
                _put(ready, ("batch", on_device(batch, device)), stopped)
                if stopped.is_set():
                    return
        except BaseException as error:
            kind = ("error", error)
        _put(ready, kind, stopped)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stopped.set()
        thread.join()


def _put(ready: queue.Queue[tuple[str, Any]], value: tuple[str, Any], stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            ready.put(value, timeout=0.1)
        except queue.Full:
            continue
        return
