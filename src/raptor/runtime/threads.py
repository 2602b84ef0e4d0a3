"""Number of threads for the cores that this process can really use; chosen before torch is loaded.

Threads of OpenMP spin while they wait for one another. Beside another busy process, one of them is often not running,
and the others burn the time that it needs: two threads on two cores, one of them busy, are four times slower than on a
quiet machine, one thread is less than twice slower.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path

# Variables by which a user chooses the threads; if one of them is set, nothing is changed.
CHOSEN = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "KMP_BLOCKTIME",
)
# Turns of a waiting thread before it sleeps, about 65 microseconds; libgomp's default is 300,000. Set only beside other
# busy processes: two threads on two cores with two such processes train at least three times faster with it. A quiet
# machine keeps the default, because training there was 13% slower with this setting. If another process begins later,
# the command keeps the threads that it began with.
SPIN = 5000
LOOK = 0.1  # seconds over which the load of the cores is measured


def available_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use: its affinity, and the quota of its control group.

    Parameters
    ----------
    root
        Directory of `sys`, for tests.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota(root))))


def _quota(root: Path) -> float:
    """Return the cores that the control group allows; infinity where it sets no limit."""
    folder = root / "sys/fs/cgroup"
    try:
        quota, period = (folder / "cpu.max").read_text().split()  # version 2
    except (OSError, ValueError):
        try:
            quota, period = ((folder / f"cpu/cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return math.inf
    try:
        return int(quota) / int(period) if int(quota) > 0 else math.inf  # "max" or -1: no limit
    except (ValueError, ZeroDivisionError):
        return math.inf


def busy_cores(cores: int, stat: Path = Path("/proc/stat"), seconds: float = LOOK) -> int:
    """Return how many of the cores are kept busy by other processes, measured while this one sleeps.

    Parameters
    ----------
    cores
        Number of cores of this process; at most one less is returned.
    stat
        File of the kernel with the time that each core spent.
    seconds
        Seconds to look.
    """
    before = _busy_seconds(stat)
    if before is None:
        return 0
    time.sleep(seconds)
    after = _busy_seconds(stat)
    if after is None:
        return 0
    return max(0, min(cores - 1, round((after - before) / seconds)))


def _busy_seconds(stat: Path) -> float | None:
    """Return the seconds that the cores of this process have worked since the machine started; None if unknown."""
    try:
        allowed = os.sched_getaffinity(0)
        total = 0
        for line in stat.read_text().splitlines():
            name, *ticks = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in allowed:
                # user, nice, system; then idle and iowait; then interrupts; then stolen by other virtual machines.
                user, nice, system, _, _, *others = map(int, ticks[:8])
                total += user + nice + system + sum(others)
        return total / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None


def thread_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables to set; none where the user has chosen threads.

    Parameters
    ----------
    environment
        Variables of this process.
    """
    if any(name in environment for name in CHOSEN):
        return {}
    cores = available_cores()
    busy = busy_cores(cores)
    return {"OMP_NUM_THREADS": str(cores - busy), **({"GOMP_SPINCOUNT": str(SPIN)} if busy else {})}
