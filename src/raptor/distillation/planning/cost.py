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

from raptor.core.estimate import Estimate
from raptor.core.flow import DepthFlow, trajectory_size
from raptor.core.phases import Phases
from raptor.core.serialize import key
from raptor.distillation.adapted import windowed
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.losses import TrajectoryLoss
from raptor.distillation.planning.law import Law, finished_runs, fit_law
from raptor.distillation.planning.options import PlanOptions
from raptor.distillation.recipes import distillation_named
from raptor.distillation.stage_losses import end_to_end_loss
from raptor.distillation.targets import Targets
from raptor.distillation.windows import Window
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
    window
        Side of the window of patches that stage 1 trains on, over the side of the image.
    tflops
        Assumed speed of a device, in 1e12 operations per second; None where the seconds come from timed steps.
    law_from, expected
        Where the law of the budget comes from, and what it expects this budget to reach: `cosine` at the last layer and
        `recovered` accuracy; None without runs.
    target, target_images, target_seconds
        Accuracy to recover, and the images and the seconds that the law expects it to take.
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
    window: float = 1.0
    tflops: float | None = key(None, omit_none=True)
    law_from: list[str] | None = key(None, omit_none=True)
    expected: dict[str, Estimate[float]] | None = key(None, omit_none=True)
    target: float | None = key(None, omit_none=True)
    target_images: Estimate[float] | None = key(None, omit_none=True)
    target_seconds: Estimate[float] | None = key(None, omit_none=True)


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
    laws = _laws(options)  # before the seconds that timing takes
    phases = Phases.even(teacher.depth, options.k)  # the cost of a step hardly depends on the boundaries
    batch = options.batch_size
    pixels = torch.randn(batch, 3, *teacher.image_size, device=teacher.device)
    chosen = windowed(distillation_named(options.recipe), teacher, pixels)
    assert chosen.window is not None
    surrogate = build_surrogate(teacher, phases, chosen.kind, **chosen.block)
    # Stage 1 may see a window, and stage 2 sees all patches.
    window, whole = Window(teacher.layout, chosen.window), Window(teacher.layout, 1.0)
    shares = {whole: 1.0} if chosen.window == 1 else {window: 0.5, whole: 0.5}
    step_seconds, flops, saved = 0.0, 0.0, 0
    for one, share in shares.items():
        timed, kept = calibrate(teacher, surrogate.raptor, pixels, chosen, one)
        step_seconds += share * (timed.passes + timed.optimizer)
        saved = max(saved, kept)
        # Forward pass of the teacher; forward pass and, at twice the cost, backward pass of the surrogate.
        flops += share * (_flops(teacher, pixels[:1], one) + 3 * _flops(surrogate, pixels[:1], one))
    images = 2 * options.epochs * options.dataset_size
    image_seconds = step_seconds / batch if options.tflops is None else flops / (1e12 * options.tflops)
    image_seconds /= options.devices
    states = 4 * trajectory_size(teacher)
    trained = count_parameters(surrogate.raptor)
    needed = laws["recovered"].images_for(options.target) if options.target is not None else None
    return PlanResult(
        recipe=options.recipe,
        phases=phases,
        dataset_size=options.dataset_size,
        epochs=options.epochs,
        devices=options.devices,
        device=str(teacher.device),
        flops=images * flops,
        seconds=images * image_seconds,
        # The teacher's weights; weights, gradients and two moments of the blocks; activations; the teacher's states.
        memory=4 * count_parameters(teacher.module) + 16 * trained + saved + batch * states,
        # The surrogate, and one checkpoint per stage with both moments.
        disk=4 * trained + 2 * 12 * trained,
        disk_if_stored=options.dataset_size * states,
        calibration=Calibration(batch, step_seconds, ROUNDS),
        window=chosen.window,
        tflops=options.tflops,
        law_from=[Path(run).name for run in options.runs] if options.runs else None,
        expected={name: law.predict(max(images, 1)) for name, law in laws.items()} if laws else None,
        target=options.target,
        target_images=needed,
        target_seconds=None if needed is None else needed.map(lambda images: images * image_seconds),
    )


def _laws(options: PlanOptions) -> dict[str, Law]:
    """Return the law of each measure of the given runs."""
    laws = {name: fit_law(runs) for name, runs in finished_runs(options.runs).items()} if options.runs else {}
    if options.target is not None and "recovered" not in laws:
        raise OptionError(
            "--target needs --run: at least three finished distillations of different lengths, whose images have labels"
        )
    return laws


def _flops(flow: DepthFlow, pixels: torch.Tensor, window: Window) -> int:
    """Return the operations of a forward pass on a window of patches."""
    return count_flops(flow, pixels, window.take)


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


def calibrate(
    teacher: Teacher, raptor: Raptor, pixels: torch.Tensor, chosen: Distillation, window: Window | None = None
) -> tuple[Timed, int]:
    """Time a step of stage 2; return its seconds and the bytes of activations that are kept for the backward pass."""
    loss, window = TrajectoryLoss(chosen.end_to_end_weights), window or Window(teacher.layout, 1.0)
    targets = Targets(teacher, 1.0, window)
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
            truth = targets.states_of(window.take(teacher.embed(pixels)))
        end_to_end_loss(raptor, truth, window.inside, loss).backward()

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
