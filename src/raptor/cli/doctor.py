"""Whether this machine can do the work: versions, devices, and the device against the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

from raptor.cli.device_check import DeviceCheck, check_device
from raptor.runtime.device import available_devices, resolve_device
from raptor.runtime.rundir import versions
from raptor.runtime.timing import compare


@dataclass(frozen=True)
class DoctorResult:
    """What this machine has, and whether its device agrees with the CPU.

    Parameters
    ----------
    versions
        Versions of Python and of packages; None where a package is not installed.
    device, devices
        The device that was tested, and all that there are.
    cores, threads
        Number of CPU cores, and of threads that torch uses.
    bf16_speed
        How many times as fast matrix products are in bfloat16 as in single precision, on that device.
    max_difference, tolerance
        Largest difference of a state of a toy flow from the CPU's, relative to the largest, and what is allowed.
    ok
        Whether all checks are within their tolerances.
    checks
        A rollout of a toy flow, a similarity pass, a DMD and a training step, each compared with the CPU.
    """

    versions: dict[str, str | None]
    device: str
    devices: list[str]
    cores: int | None
    threads: int
    bf16_speed: float
    max_difference: float
    ok: bool
    tolerance: float
    checks: dict[str, DeviceCheck]


def examine(device: str, seed: int = 0) -> DoctorResult:
    """Do some of raptor's work on a device, and the same on the CPU.

    Parameters
    ----------
    device
        `auto`, `cpu`, `cuda` or `mps`.
    seed
        Seed of the images.
    """
    chosen = resolve_device(device)
    checks = check_device(chosen, seed)
    toy = checks["rollout"]
    return DoctorResult(
        versions=versions(),
        device=str(chosen),
        devices=available_devices(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        bf16_speed=_bf16_speed(chosen),
        max_difference=toy.difference,
        ok=all(check.ok for check in checks.values()),
        tolerance=toy.tolerance,
        checks=checks,
    )


def _bf16_speed(device: torch.device) -> float:
    """Return the time of a matrix product of a ViT block in single precision over that in bfloat16."""

    def product(dtype: torch.dtype) -> Callable[[], object]:
        tokens, weights = (torch.ones(shape, dtype=dtype, device=device) for shape in ((2048, 384), (384, 1536)))
        return lambda: (tokens @ weights)[0, 0].item()  # which waits for a GPU

    return round(1 / compare("bf16", product(torch.bfloat16), product(torch.float32), limit=1.0).ratio, 2)
