"""The work of raptor on a device and on the CPU: a training step, a similarity pass and a DMD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from raptor.core import toy
from raptor.core.flow import rollout
from raptor.distillation.distill import distill
from raptor.distillation.options import DistillOptions
from raptor.dynamics.dmd.pooled import PooledDMD
from raptor.dynamics.measures import run_measures
from raptor.models.load import load_model
from raptor.models.teachers.teacher import Teacher
from raptor.phases.similarity import layer_similarity
from raptor.runtime.random_state import preserve_random_state

LAYERS, WIDTH, IMAGES = [0.1, 0.4, 0.02, 0.2], 64, 8  # angles of the toy flow's layers in radians
SHIFT = 1e-3  # largest difference of what accumulates rounding over layers and a whole training step


@dataclass(frozen=True)
class DeviceCheck:
    """One kind of work on a device, compared with the CPU.

    Parameters
    ----------
    difference
        Largest difference, relative to the largest value on the CPU.
    tolerance
        Largest difference that is allowed.
    ok
        Whether it is within the tolerance.
    """

    difference: float
    tolerance: float
    ok: bool


def _rollout(teacher: Teacher, pixels: Tensor) -> Tensor:
    flow = toy.Rotation(LAYERS, width=WIDTH)
    return rollout(flow, flow.embed(pixels.to(teacher.device))).states


def _similarity(teacher: Teacher, pixels: Tensor) -> Tensor:
    return torch.from_numpy(layer_similarity(teacher, [pixels]).matrix("all"))


def _dmd(teacher: Teacher, pixels: Tensor) -> Tensor:
    linear = PooledDMD(rank=4)
    run_measures(teacher, [pixels], linear)
    return torch.stack([modes.eigenvalues.abs().sort().values for modes in linear.compute().values()])


def _training_step(teacher: Teacher, pixels: Tensor) -> Tensor:
    from raptor.data.load import load_images

    images = load_images("scenes:train", teacher, images=24)
    options = DistillOptions(steps=1, batch_size=4, crop=1, window=1)
    student = distill(teacher, images, "5-7", options, progress=False)
    return torch.cat([value.detach().cpu().flatten() for value in student.raptor.parameters()])


CHECKS: dict[str, tuple[Callable[[Teacher, Tensor], Tensor], float]] = {
    "rollout": (_rollout, 1e-5),
    "similarity": (_similarity, SHIFT),
    "dmd": (_dmd, SHIFT),
    "training step": (_training_step, SHIFT),
}


@preserve_random_state()
def check_device(device: torch.device, seed: int = 0) -> dict[str, DeviceCheck]:
    """Do the same work with the bundled ViT on a device and on the CPU.

    Parameters
    ----------
    device
        The device; a CPU is compared with itself.
    seed
        Seed of the images.
    """
    pixels = torch.rand(IMAGES, 3, 64, 64, generator=torch.Generator().manual_seed(seed))
    found = {}
    for name, (work, tolerance) in CHECKS.items():
        wanted, got = (work(load_model("scenes", device=where), pixels).cpu().double() for where in ("cpu", device))
        difference = float((got - wanted).abs().max() / wanted.abs().max())
        found[name] = DeviceCheck(difference, tolerance, difference <= tolerance)
    return found
