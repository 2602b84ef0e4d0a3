"""Torch's global random generators, preserved around library calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore torch's global generators (CPU, MPS, and every GPU in use) at the end; also usable as a decorator.

    New modules draw their initial weights from the global generator. A library call must not change the numbers that
    its caller draws afterwards.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        if mps is not None:
            torch.mps.set_rng_state(mps)
