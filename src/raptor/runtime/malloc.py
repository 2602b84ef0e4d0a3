"""Settings of the C library's memory allocator."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 2**31 - 1  # bytes of free memory that the process may keep
_LARGEST = 2**25  # bytes of the largest block that the heap serves; glibc's upper limit


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for reuse; return whether the setting was applied.

    A training step frees and allocates the same gigabytes of activations again and again. By default glibc returns
    large blocks to the system, which must clear every page again: about a tenth of a training step on a CPU. Peak
    memory does not change. The setting holds for the whole process and cannot be read back or restored, so the command
    `raptor` calls this and no library function does. You may call it in a script of yours.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and all([mallopt(_TRIM_THRESHOLD, _KEPT), mallopt(_MMAP_THRESHOLD, _LARGEST)])
