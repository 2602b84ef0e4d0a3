"""How the C library treats memory that a training step, or a measured batch, has freed."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 2**31 - 1  # bytes of free memory that the process may hold on to
_LARGEST = 2**25  # bytes of one block that the heap serves; glibc's own upper limit


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory for the next step; return whether it understood.

    A step frees and asks again for the same gigabytes of activations. By default glibc hands large blocks
    back to the system at once, which then has to clear every page anew: a tenth of a step on a CPU.
    The peak of memory stays what it is. A C library other than glibc is left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and all([mallopt(_TRIM_THRESHOLD, _KEPT), mallopt(_MMAP_THRESHOLD, _LARGEST)])
