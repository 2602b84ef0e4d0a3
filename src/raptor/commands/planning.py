"""What `raptor plan` does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from raptor.complexity import count_flops, count_parameters
from raptor.device import synchronise
from raptor.errors import OptionError
from raptor.flow import rollout, trajectory_size
from raptor.models.raptor import Raptor
from raptor.models.surrogate import build_surrogate
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.run import Run
from raptor.training.distill import joined_loss
from raptor.training.losses import TrajectoryLoss
from raptor.training.recipe import build_optimizers
from raptor.training.recipes import Distillation, distillation_named

ROUNDS = 3  # timed steps, after one that is not


def plan_distillation(
    model: str,
    dataset_size: int,
    k: int,
    devices: int,
    epochs: float,
    recipe: str,
    weights: Path | None,
    common: Common,
) -> dict[str, Any]:
    """Estimate a full distillation of two stages from a few steps on the device at hand."""
    config = common.config(
        model=model, dataset_size=dataset_size, k=k, devices=devices, epochs=epochs, recipe=recipe, weights=weights
    )
    with Run("plan", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, device=common.device)
        if k > teacher.depth:
            raise OptionError(f"{teacher.depth} layers cannot be cut into {k} phases")
        chosen = distillation_named(recipe)
        phases = even_phases(teacher.depth, k)
        surrogate = build_surrogate(teacher, phases, chosen.kind, **chosen.block)
        pixels = torch.randn(common.batch, 3, *teacher.image_size, device=teacher.device)
        timed, saved = calibrate(teacher, surrogate.raptor, pixels, chosen)
        seconds = timed.passes + timed.optimizer
        images = 2 * epochs * dataset_size
        states = 4 * trajectory_size(teacher)
        trained = count_parameters(surrogate.raptor)
        one = {name: count_flops(flow, pixels[:1]) for name, flow in (("s", surrogate), ("t", teacher))}
        body = {
            "model": teacher.name,
            "recipe": recipe,
            "phases": str(phases),
            "dataset_size": dataset_size,
            "epochs": epochs,
            "devices": devices,
            "device": str(teacher.device),
            # The teacher forward; the surrogate forward and, at twice that, backward.
            "flops": images * (one["t"] + 3 * one["s"]),
            "seconds": images * seconds / common.batch / devices,
            # Weights of the teacher; weights, gradients and two moments of the blocks; activations; true states.
            "memory": 4 * count_parameters(teacher.module) + 16 * trained + saved + common.batch * states,
            # The surrogate, and one checkpoint a stage with both moments.
            "disk": 4 * count_parameters(surrogate.raptor) + 2 * 12 * trained,
            "disk_if_stored": dataset_size * states,
            "calibration": {"batch_size": common.batch, "step_seconds": seconds, "rounds": ROUNDS},
        }
        return run.finish(body, images=0, layers=teacher.depth)


def even_phases(depth: int, k: int) -> Phases:
    """Return phases as equal as can be: what a step costs hardly depends on where the cuts are."""
    return Phases.from_boundaries([round(depth * j / k) for j in range(1, k)], depth)


@dataclass(frozen=True)
class Timed:
    """Median seconds of the parts of a training step: what grows with the batch, and what does not."""

    passes: float
    optimizer: float


def calibrate(teacher: Teacher, raptor: Raptor, pixels: torch.Tensor, chosen: Distillation) -> tuple[Timed, int]:
    """Time a step of stage 2; return that and the bytes of activations that its backward pass keeps."""
    loss = TrajectoryLoss(chosen.joined_weights)
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
        joined_loss(raptor, truth, teacher.layout, loss).backward()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        passes()
    return time_steps(raptor, passes, build_optimizers(raptor, chosen.joined), pixels.device), saved


def time_steps(
    model: nn.Module, passes: Callable[[], None], optimizers: Sequence[Optimizer], device: torch.device
) -> Timed:
    """Time a forward and backward pass, and the optimisers."""
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
