"""The one training loop: it trains ViTs, surrogates and probes."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from raptor.errors import ResumeError, TrainingError, one_line
from raptor.files import explained, sweep, writing
from raptor.memory import keep_freed_memory
from raptor.training import checkpoint
from raptor.training.checkpoint import Checkpoint
from raptor.training.recipe import Recipe, build_optimizers
from raptor.training.schedules import warmup_cosine
from raptor.training.workers import Launch, Part, Workers

METRICS = "metrics.jsonl"
SAVE_EVERY = int(os.environ.get("RAPTOR_SAVE_EVERY", "200"))  # steps between checkpoints


# What is trained: a batch and the step that it is for, to the loss and to numbers worth logging.
Objective = Callable[[Any, int], tuple[Tensor, dict[str, Tensor]]]
# Where batches come from: those of all steps from a given one on, of a size, this process's part of each.
Batches = Callable[[int, int, Part], Iterator[Any]]
Watch = Callable[[dict[str, float]], None]


def fit(
    model: nn.Module,
    objective: Objective,
    batches: Batches,
    recipe: Recipe,
    out: Path | None = None,
    resume: bool = False,
    about: dict[str, Any] | None = None,
    save_every: int = SAVE_EVERY,
    log_every: int = 20,
    watch: Watch | None = None,
    apart: Sequence[nn.Module] = (),
    launch: Launch | None = None,
    optimizers: Sequence[Optimizer] | None = None,
) -> float:
    """Train `model` in place; return the seconds of training, those before an interruption included.

    Parameters
    ----------
    model
        What has the parameters.
    objective, batches
        What is minimised, and on what.
    recipe
        The optimisation.
    out
        Directory for `checkpoint.pt` and `metrics.jsonl`; None keeps nothing.
    resume
        Go on from the checkpoint in `out`, bit by bit as if the run had never stopped.
    about
        What else belongs to the configuration (the model's, the data's): resuming with another is refused.
    save_every, log_every
        Steps between checkpoints and between lines of the log.
    watch
        Called with each line of the log.
    apart
        Parts of the model whose gradients are clipped each on its own, as if they were trained alone.
    launch
        Precision, accumulation, trackers; processes are those that `torchrun` or `accelerate launch` started.
    optimizers
        Instead of the recipe's; each group of their parameters has a `peak` learning rate.
    """
    keep_freed_memory()
    launch = launch or Launch()
    log_every = max(1, min(log_every, recipe.steps // 20))  # a short training has a curve too
    chosen = optimizers or build_optimizers(model, recipe)
    workers = Workers(model, objective, chosen, launch, recipe.batch_size, out)
    # JSON's own types, so that what is compared is what was saved.
    config = json.loads(json.dumps({**asdict(recipe), **(about or {})}))
    found = checkpoint.load(out, config) if out is not None and resume else None
    first, spent = 0, 0.0
    if found is not None:
        _go_on(model, workers.optimizers, found, recipe)
        first, spent = found.step, found.seconds
    kept = out if workers.main else None
    if kept is not None:
        sweep(kept)
    log = _Log(None if kept is None else kept / METRICS, first, watch if workers.main else None)
    workers.track(config)
    started = time.perf_counter() - spent

    def keep(step: int) -> None:
        if kept is not None:
            seconds = time.perf_counter() - started
            states = [optimizer.state_dict() for optimizer in workers.optimizers]
            checkpoint.save(Checkpoint(step, seconds, config, model.state_dict(), states), kept)

    model.train()
    step, source = first, batches(first * launch.accumulate, recipe.batch_size // launch.accumulate, workers.part)
    with _sigterm() as asked:
        while step < recipe.steps:
            _set_rates(workers.optimizers, recipe, step)
            workers.seed((recipe.seed << 32) + step)
            loss, metrics = workers.gradient(source, step)
            stop, loss = workers.agree(asked(), loss)
            if not math.isfinite(loss.item()):
                raise TrainingError(
                    f"the loss of step {step} is {loss.item()}; the last checkpoint is kept. Lower the learning rate"
                )
            workers.update(apart or [model], recipe.clip)
            step += 1
            if step % log_every == 0 or step == recipe.steps:
                workers.log(log.write(step, recipe, time.perf_counter() - started, loss=loss, **metrics), step)
            if stop or step % save_every == 0 or step == recipe.steps:
                keep(step)
            if stop:
                raise SystemExit(128 + signal.SIGTERM)
    workers.end()
    model.eval()
    return time.perf_counter() - started


def _go_on(model: nn.Module, optimizers: Sequence[Optimizer], found: Checkpoint, recipe: Recipe) -> None:
    """Put everything back to where a checkpoint left it; one that does not fit is an error that says so."""
    try:
        if not 0 <= found.step <= recipe.steps:
            raise ValueError(f"its step is {found.step}")
        model.load_state_dict(found.model)
        for optimizer, state in zip(optimizers, found.optimizers, strict=True):
            optimizer.load_state_dict(state)
            for parameter, values in optimizer.state.items():
                shapes = {value.shape for value in values.values() if torch.is_tensor(value) and value.ndim}
                if shapes - {parameter.shape}:
                    raise ValueError("its optimiser has other shapes than the model")
        _set_rates(optimizers, recipe, found.step)
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ResumeError(
            f"the checkpoint does not belong to this training ({one_line(error)}); remove it to start anew, or use "
            "another --out"
        ) from error


def _set_rates(optimizers: Sequence[Optimizer], recipe: Recipe, step: int) -> None:
    factor = warmup_cosine(step, recipe.steps, recipe.warmup, recipe.floor)
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["lr"] = group["peak"] * factor


class _Log:
    """`metrics.jsonl`; lines after the step that a run goes on from are of steps that it takes again."""

    def __init__(self, path: Path | None, first: int, watch: Watch | None):
        self.path, self.watch = path, watch
        if path is not None:
            lines = path.read_text(errors="replace").splitlines(keepends=True) if path.exists() and first else []
            with writing(path) as file:
                file.writelines(line.encode() for line in lines if line.endswith("\n") and _step(line) <= first)

    def write(self, step: int, recipe: Recipe, seconds: float, **values: Tensor) -> dict[str, float]:
        line = {
            "step": step,
            **{name: value.item() for name, value in values.items()},
            "lr": recipe.lr * warmup_cosine(step - 1, recipe.steps, recipe.warmup, recipe.floor),
            "seconds": round(seconds, 3),
            "images_per_second": round(step * recipe.batch_size / seconds, 2),
        }
        if self.path is not None:
            with explained(self.path), self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if self.watch is not None:
            self.watch(line)
        return line


def _step(line: str) -> float:
    """Return the step that a line of the log is of; a damaged one is of none."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf


@contextmanager
def _sigterm() -> Iterator[Callable[[], bool]]:
    """Turn SIGTERM into a question that is asked after each step, so that a checkpoint can be written first."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGTERM, before)
