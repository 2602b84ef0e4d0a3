"""Whether this machine can do the work: versions, devices, and a toy flow on the device against the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from raptor.core import toy
from raptor.core.flow import rollout
from raptor.runtime.device import available_devices, resolve_device
from raptor.runtime.rundir import versions

TOLERANCE = 1e-5
LAYERS, WIDTH, IMAGES = [0.1, 0.4, 0.02, 0.2], 64, 8  # angles of the toy flow's layers in radians


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
    max_difference, tolerance, ok
        Largest difference of a state from the CPU's, the largest that is allowed, and whether it is within it.
    """

    versions: dict[str, str | None]
    device: str
    devices: list[str]
    cores: int | None
    threads: int
    max_difference: float
    ok: bool
    tolerance: float


def examine(device: str, seed: int = 0) -> DoctorResult:
    """Compare a rollout of a toy flow on a device with the same on the CPU.

    Parameters
    ----------
    device
        `auto`, `cpu`, `cuda` or `mps`.
    seed
        Seed of the images.
    """
    chosen = resolve_device(device)
    flow = toy.Rotation(LAYERS, width=WIDTH)
    pixels = torch.rand(IMAGES, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    reference = rollout(flow, flow.embed(pixels)).states
    measured = rollout(flow, flow.embed(pixels.to(chosen))).states.cpu()
    difference = (measured - reference).abs().max().item()
    return DoctorResult(
        versions=versions(),
        device=str(chosen),
        devices=available_devices(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        max_difference=difference,
        ok=difference <= TOLERANCE,
        tolerance=TOLERANCE,
    )
