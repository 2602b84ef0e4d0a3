"""The training loop of ViTs, surrogates and probes."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from raptor.errors import ResumeError, TrainingError, one_line
from raptor.runtime.device import matmul_precision
from raptor.runtime.files import sweep
from raptor.runtime.prefetch import prefetched
from raptor.runtime.random_state import preserve_random_state
from raptor.training import checkpoint
from raptor.training.accelerate import LaunchOptions, Part, TrainingAccelerator
from raptor.training.attention import bf16_attention_by_products
from raptor.training.checkpoint import Checkpoint
from raptor.training.config import TrainConfig, build_optimizers
from raptor.training.log import METRICS, TrainingLog, Watch
from raptor.training.schedules import warmup_cosine

SAVE_EVERY = int(os.environ.get("RAPTOR_SAVE_EVERY", "200"))  # most steps between checkpoints
SAVE_SECONDS = 300.0  # most seconds between checkpoints, and the longest step


# What is minimised: from a batch and its step to the loss, and metrics for the log.
Objective = Callable[[Any, int], tuple[Tensor, dict[str, Tensor]]]
# Where batches come from: from the first batch's number, the batch size and this process's shard, to all later batches.
Batches = Callable[[int, int, Part], Iterator[Any]]
OnStep = Callable[[int, float], None]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during a training, which was stopped after a whole step.

    Parameters
    ----------
    step
        Number of steps that were done.
    """

    def __init__(self, step: int):
        super().__init__(f"the training was interrupted after step {step}")
        self.step = step


def fit(
    model: nn.Module,
    objective: Objective,
    batches: Batches,
    recipe: TrainConfig,
    out: Path | None = None,
    resume: bool = False,
    extra_config: dict[str, Any] | None = None,
    save_every: int = SAVE_EVERY,
    log_every: int = 20,
    watch: Watch | None = None,
    on_step: OnStep | None = None,
    clip_separately: Sequence[nn.Module] = (),
    launch: LaunchOptions | None = None,
    optimizers: Sequence[Optimizer] | None = None,
    validate: Callable[[int, float], None] | None = None,
) -> float:
    """Train `model` in place; return the seconds of training, including those before an interruption.

    Parameters
    ----------
    model
        Module with the parameters.
    objective, batches
        What is minimised, and the training data.
    recipe
        The optimisation.
    out
        Directory for `checkpoint.pt` and `metrics.jsonl`; None writes nothing.
    resume
        Continue from the checkpoint in `out`, bit-identically on a CPU.
    extra_config
        Further configuration (of the model, of the data); a checkpoint with another one cannot be resumed.
    save_every, log_every
        Most steps between checkpoints, which are also written every five minutes; steps between lines of the log.
    watch
        Called with each line of the log.
    on_step
        Called after every step with the number of steps and the loss.
    clip_separately
        Parts of the model whose gradients are clipped separately, as if they were trained alone.
    launch
        Precision, accumulation, trackers; processes are those that `torchrun` or `accelerate launch` started.
    optimizers
        Optimisers in place of the recipe's; each of their parameter groups has a `peak` learning rate.
    validate
        Called after every step, in the main process, with the number of steps and the seconds of training. Its own
        time does not count.
    """
    launch = launch or LaunchOptions()
    log_every = max(1, min(log_every, recipe.steps // 20))  # at least 20 points of the curve
    chosen = optimizers or build_optimizers(model, recipe)
    accelerator = TrainingAccelerator(model, objective, chosen, launch, recipe.batch_size, out)
    # In JSON's types, so that what is compared is what was saved.
    config = json.loads(json.dumps({**asdict(recipe), **(extra_config or {})}))
    found = checkpoint.load(out, config) if out is not None and resume else None
    first, spent = 0, 0.0
    if found is not None:
        _restore(model, accelerator.optimizers, found, recipe)
        first, spent = found.step, found.seconds
    kept = out if accelerator.main else None
    if kept is not None:
        sweep(kept)
    log = TrainingLog(None if kept is None else kept / METRICS, first, watch if accelerator.main else None)
    accelerator.track(config)
    started = time.perf_counter() - spent

    saved = time.monotonic()

    def keep(step: int) -> None:
        nonlocal saved
        saved = time.monotonic()
        if kept is not None:
            seconds = time.perf_counter() - started
            states = [optimizer.state_dict() for optimizer in accelerator.optimizers]
            checkpoint.save(Checkpoint(step, seconds, config, model.state_dict(), states), kept)

    model.train()
    parts, step = launch.gradient_accumulation_steps, first
    source = prefetched(
        batches(first * parts, recipe.batch_size // parts, accelerator.part), next(model.parameters()).device
    )
    attention = bf16_attention_by_products() if launch.precision == "bf16" and not launch.compile else nullcontext()
    with _stop_signals() as asked, preserve_random_state(), matmul_precision(launch.tf32), attention, closing(source):
        while step < recipe.steps:
            _set_rates(accelerator.optimizers, recipe, step)
            accelerator.seed((recipe.seed << 32) + step)
            loss, metrics = accelerator.gradient(source, step)
            stop, loss = accelerator.agree(asked(), loss)
            value = loss.item()
            if not math.isfinite(value):
                raise TrainingError(
                    f"the loss of step {step} is {value}: lower the learning rate. The last checkpoint is kept"
                )
            accelerator.update(clip_separately or [model], recipe.clip)
            step += 1
            if step % log_every == 0 or step == recipe.steps:
                accelerator.log(log.write(step, recipe, time.perf_counter() - started, loss=loss, **metrics), step)
            if on_step is not None and accelerator.main:
                on_step(step, value)
            if validate is not None and kept is not None:
                before = time.perf_counter()
                validate(step, before - started)
                started += time.perf_counter() - before
            late = time.monotonic() - saved >= SAVE_SECONDS
            if stop or late or step % save_every == 0 or step == recipe.steps:
                keep(step)
            if stop == signal.SIGINT:
                raise TrainingInterrupted(step)
            if stop:
                raise SystemExit(128 + signal.SIGTERM)
    accelerator.end()
    model.eval()
    return time.perf_counter() - started


def _restore(model: nn.Module, optimizers: Sequence[Optimizer], found: Checkpoint, recipe: TrainConfig) -> None:
    """Restore the state of a checkpoint; raise where it does not fit the model."""
    try:
        if not 0 <= found.step <= recipe.steps:
            raise ValueError(f"its step is {found.step}")
        model.load_state_dict(found.model)
        for optimizer, state in zip(optimizers, found.optimizers, strict=True):
            optimizer.load_state_dict(state)
            for parameter, values in optimizer.state.items():
                shapes = {value.shape for value in values.values() if torch.is_tensor(value) and value.ndim}
                if shapes - {parameter.shape}:
                    raise ValueError("the shapes of its optimiser differ from the model's")
        _set_rates(optimizers, recipe, found.step)
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ResumeError(
            f"the checkpoint does not belong to this training ({one_line(error)}); remove it to start again, or use "
            "another --out"
        ) from error


def _set_rates(optimizers: Sequence[Optimizer], recipe: TrainConfig, step: int) -> None:
    factor = warmup_cosine(step, recipe.steps, recipe.warmup, recipe.floor)
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["lr"] = group["peak"] * factor


@contextmanager
def _stop_signals() -> Iterator[Callable[[], int]]:
    """Let SIGTERM and the first Ctrl-C be read after each step, so that a checkpoint can be written first.

    The function that is yielded returns the signal, or 0. A second Ctrl-C interrupts at once.
    """
    got = [0]

    def read() -> int:
        return got[0]

    if threading.current_thread() is not threading.main_thread():
        yield read
        return

    def handle(number: int, frame: object) -> None:
        if number == got[0] == signal.SIGINT:
            raise KeyboardInterrupt
        got[0] = number

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield read
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # A signal during the last step, which the loop no longer asks for; what it trained is saved.
    if got[0] == signal.SIGINT:
        raise KeyboardInterrupt
    if got[0]:
        raise SystemExit(128 + got[0])
