"""Whether this machine can do the work: versions, devices, and a toy flow on the device against the CPU."""

from __future__ import annotations

import os
from typing import Any

import torch

from raptor import toy
from raptor.device import available_devices, resolve_device
from raptor.flow import rollout
from raptor.run import versions

TOLERANCE = 1e-5


def examine(device: str, seed: int = 0) -> dict[str, Any]:
    """Return what this machine has, and how far a rollout on `device` is from the same on the CPU."""
    chosen = resolve_device(device)
    flow = toy.Rotation([0.1, 0.4, 0.02, 0.2], width=64)
    pixels = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    reference = rollout(flow, flow.embed(pixels)).states
    measured = rollout(flow, flow.embed(pixels.to(chosen))).states.cpu()
    difference = (measured - reference).abs().max().item()
    return {
        "versions": versions(),
        "device": str(chosen),
        "devices": available_devices(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "max_difference": difference,
        "ok": difference <= TOLERANCE,
        "tolerance": TOLERANCE,
        "depth": flow.depth,
    }
