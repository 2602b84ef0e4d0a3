"""Devices to run on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from raptor.errors import DataError, OptionError


def available_devices() -> list[str]:
    """Return the available types of device, fastest first."""
    devices = []
    if torch.cuda.is_available():
        devices.append("cuda")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return [*devices, "cpu"]


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to double precision; a tensor on MPS, which lacks it, moves to the CPU."""
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()


def halved(tensor: torch.Tensor, what: str, otherwise: str) -> torch.Tensor:
    """Convert a tensor to half precision on the CPU; raise a DataError if a value overflows.

    Parameters
    ----------
    tensor
        Values of any shape.
    what, otherwise
        What the values are, and what to do if they overflow; both for the message.
    """
    half = tensor.half().cpu()
    if not torch.isfinite(half).all():
        largest = tensor.abs().max().item()
        raise DataError(f"{what} reach {largest:.3g}, too large for half precision; {otherwise}")
    return half


@contextlib.contextmanager
def matmul_precision(tf32: bool) -> Iterator[None]:
    """Let GPUs use TF32 for matrix products of single precision, and restore the setting at the end.

    Parameters
    ----------
    tf32
        Whether to use it; if not, nothing changes.
    """
    before = torch.get_float32_matmul_precision()
    if tf32:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def synchronise(device: torch.device) -> None:
    """Wait until all kernels that were started on a device are done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def resolve_device(device: str | torch.device) -> torch.device:
    """Return a device.

    Parameters
    ----------
    device
        `auto` for the fastest available device, or `cpu`, `cuda`, `cuda:1`, `mps`. A device that this machine does not
        have is an OptionError.
    """
    if str(device) == "auto":
        return _of_this_process(torch.device(available_devices()[0]))
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"unknown device {device!r}; use auto, cpu, cuda or mps") from error
    if resolved.type not in available_devices():
        raise OptionError(f"this machine has no {resolved.type}; use {' or '.join(available_devices())}")
    return _of_this_process(resolved)


def varies(device: torch.device) -> str | None:
    """Return a note that results on a device are not bit-reproducible; None for a CPU."""
    if device.type == "cpu":
        return None
    return (
        f"{device.type.upper()} results are not bit-reproducible: the same seed gives the same numbers up to rounding, "
        "and trained weights differ more; use --device cpu for exact repeats"
    )


def _of_this_process(device: torch.device) -> torch.device:
    """Return the GPU of this process, if the device is a GPU.

    Under torchrun or accelerate it also becomes the current GPU, as their process groups need; otherwise the current
    GPU does not change.
    """
    if device.type == "cuda":
        launched = "LOCAL_RANK" in os.environ
        if device.index is None:
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) if launched else torch.cuda.current_device())
        if device.index >= torch.cuda.device_count():
            raise OptionError(f"this machine has {torch.cuda.device_count()} GPUs, so {device} does not exist")
        if launched:
            torch.cuda.set_device(device)
    return device
