"""`raptor.plan`: what a distillation costs, from a few steps on the device at hand."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.optim import Optimizer

from raptor.core.flow import rollout, trajectory_size
from raptor.core.phases import Phases
from raptor.distillation.losses import TrajectoryLoss
from raptor.distillation.options import PlanOptions
from raptor.distillation.recipes import Distillation, distillation_named
from raptor.distillation.stage_losses import end_to_end_loss
from raptor.errors import OptionError
from raptor.models.complexity import count_flops, count_parameters
from raptor.models.load import load_model
from raptor.models.raptor import Raptor
from raptor.models.surrogate import build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.render.notebook import HtmlRepr
from raptor.runtime.device import synchronise
from raptor.training.config import build_optimizers

ROUNDS = 3  # timed steps, after one that is not timed


@dataclass(frozen=True)
class Calibration:
    """Steps that were timed.

    Parameters
    ----------
    batch_size
        Images per step.
    step_seconds
        Median seconds of a step.
    rounds
        Number of timed steps.
    """

    batch_size: int
    step_seconds: float
    rounds: int


@dataclass(frozen=True)
class PlanResult(HtmlRepr):
    """Estimated cost of a full distillation in two stages.

    Parameters
    ----------
    recipe, phases, dataset_size, epochs, devices, device
        What was planned, and the device that steps were timed on.
    flops
        Floating-point operations; a multiply-add is two.
    seconds
        Time on all devices together.
    memory
        Bytes on each device.
    disk
        Bytes of the surrogate and of one checkpoint per stage.
    disk_if_stored
        Bytes of all states of the teacher, which are not stored by default.
    calibration
        The steps that were timed.
    """

    recipe: str
    phases: Phases
    dataset_size: int
    epochs: float
    devices: int
    device: str
    flops: float
    seconds: float
    memory: int
    disk: int
    disk_if_stored: int
    calibration: Calibration


def plan(model: Teacher | str | Path, options: PlanOptions) -> PlanResult:
    """Estimate the cost of a full distillation from a few steps on the model's device.

    Parameters
    ----------
    model
        What `load_model` returns or takes.
    options
        Number of images, phases, devices and epochs.
    """
    teacher = model if isinstance(model, Teacher) else load_model(model)
    if options.k > teacher.depth:
        raise OptionError(f"{teacher.depth} layers cannot be cut into {options.k} phases")
    chosen = distillation_named(options.recipe)
    phases = Phases.even(teacher.depth, options.k)  # the cost of a step hardly depends on the boundaries
    surrogate = build_surrogate(teacher, phases, chosen.kind, **chosen.block)
    batch = options.batch_size
    pixels = torch.randn(batch, 3, *teacher.image_size, device=teacher.device)
    timed, saved = calibrate(teacher, surrogate.raptor, pixels, chosen)
    step_seconds = timed.passes + timed.optimizer
    images = 2 * options.epochs * options.dataset_size
    states = 4 * trajectory_size(teacher)
    trained = count_parameters(surrogate.raptor)
    of_surrogate, of_teacher = (count_flops(flow, pixels[:1]) for flow in (surrogate, teacher))
    return PlanResult(
        recipe=options.recipe,
        phases=phases,
        dataset_size=options.dataset_size,
        epochs=options.epochs,
        devices=options.devices,
        device=str(teacher.device),
        # Forward pass of the teacher; forward pass and, at twice the cost, backward pass of the surrogate.
        flops=images * (of_teacher + 3 * of_surrogate),
        seconds=images * step_seconds / batch / options.devices,
        # The teacher's weights; weights, gradients and two moments of the blocks; activations; the teacher's states.
        memory=4 * count_parameters(teacher.module) + 16 * trained + saved + batch * states,
        # The surrogate, and one checkpoint per stage with both moments.
        disk=4 * trained + 2 * 12 * trained,
        disk_if_stored=options.dataset_size * states,
        calibration=Calibration(batch, step_seconds, ROUNDS),
    )


@dataclass(frozen=True)
class Timed:
    """Median seconds of a training step, by part.

    Parameters
    ----------
    passes
        Forward and backward pass, which grow with the batch.
    optimizer
        Update of the weights, which does not.
    """

    passes: float
    optimizer: float


def calibrate(teacher: Teacher, raptor: Raptor, pixels: torch.Tensor, chosen: Distillation) -> tuple[Timed, int]:
    """Time a step of stage 2; return its seconds and the bytes of activations that are kept for the backward pass."""
    loss = TrajectoryLoss(chosen.end_to_end_weights)
    saved = 0
    seen: set[int] = set()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal saved
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            saved += storage.nbytes()
        return tensor

    def passes() -> None:
        with torch.no_grad():
            truth = rollout(teacher, teacher.embed(pixels)).states
        end_to_end_loss(raptor, truth, teacher.layout, loss).backward()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        passes()
    return time_steps(raptor, passes, build_optimizers(raptor, chosen.end_to_end), pixels.device), saved


def time_steps(
    model: nn.Module, passes: Callable[[], None], optimizers: Sequence[Optimizer], device: torch.device
) -> Timed:
    """Return the median seconds of a forward and backward pass, and of the optimisers."""
    times: list[tuple[float, float]] = []
    for _ in range(ROUNDS + 1):
        model.zero_grad()
        start = time.perf_counter()
        passes()
        synchronise(device)
        between = time.perf_counter()
        for optimizer in optimizers:
            optimizer.step()
        synchronise(device)
        times.append((between - start, time.perf_counter() - between))
    return Timed(*(statistics.median(part) for part in zip(*times[1:], strict=True)))
