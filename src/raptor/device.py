"""Which device to run on."""

from __future__ import annotations

import torch

from raptor.errors import OptionError


def available_devices() -> list[str]:
    """Return the kinds of device that this machine has, fastest first."""
    devices = []
    if torch.cuda.is_available():
        devices.append("cuda")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return [*devices, "cpu"]


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device; `auto` is the fastest that there is, one that is not there is an error."""
    if str(device) == "auto":
        return torch.device(available_devices()[0])
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"{device!r} is not a device; use auto, cpu, cuda or mps") from error
    if resolved.type not in available_devices():
        raise OptionError(f"there is no {resolved.type} on this machine; it has {', '.join(available_devices())}")
    return resolved
