"""Which device to run on."""

from __future__ import annotations

import os

import torch

from raptor.errors import DataError, OptionError


def available_devices() -> list[str]:
    """Return the kinds of device that this machine has, fastest first."""
    devices = []
    if torch.cuda.is_available():
        devices.append("cuda")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return [*devices, "cpu"]


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in double precision, on the CPU where its device has none."""
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()


def halved(tensor: torch.Tensor, what: str, otherwise: str) -> torch.Tensor:
    """Return a tensor in half precision on the CPU; what is too large for it is an error that says what to do."""
    half = tensor.half().cpu()
    if not torch.isfinite(half).all():
        largest = tensor.abs().max().item()
        raise DataError(f"{what} reach {largest:.3g}, which half precision cannot hold; {otherwise}")
    return half


def synchronise(device: torch.device) -> None:
    """Wait until a device has done what it was given: kernels run on after the call that starts them."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device; `auto` is the fastest that there is, one that is not there is an error."""
    if str(device) == "auto":
        return _of_this_process(torch.device(available_devices()[0]))
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"{device!r} is not a device; use auto, cpu, cuda or mps") from error
    if resolved.type not in available_devices():
        raise OptionError(f"there is no {resolved.type} on this machine; it has {', '.join(available_devices())}")
    return _of_this_process(resolved)


def varies(device: torch.device) -> str | None:
    """Return what a device cannot promise; None for a CPU, on which the same seed gives the same numbers again."""
    if device.type == "cpu":
        return None
    return (
        f"{device.type} does not add up in a fixed order: the same seed gives the same numbers but for rounding, and "
        "trainings drift apart by it; --device cpu repeats exactly"
    )


def _of_this_process(device: torch.device) -> torch.device:
    """Give each of several processes of one machine a GPU of its own, and make it the current one."""
    if device.type == "cuda":
        if device.index is None and "LOCAL_RANK" in os.environ:
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise OptionError(f"there is no {device} on this machine; it has {torch.cuda.device_count()} of them")
        torch.cuda.set_device(device if device.index is not None else torch.cuda.current_device())
    return device
