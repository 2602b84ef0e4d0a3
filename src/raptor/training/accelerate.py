"""Training steps with accelerate: several processes, mixed precision, gradient accumulation, trackers."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from torch import Tensor, nn
from torch.optim import Optimizer

from raptor.errors import MissingDependencyError, OptionError, one_line
from raptor.runtime.distributed import join_processes

PRECISIONS = ("no", "bf16", "fp16")
TRACKERS = ("tensorboard", "wandb")

STRIDE = 0x9E3779B97F4A7C15  # between the seeds of processes, so that no two coincide at any step

# The shard of every batch that a process takes: (index, number of shards).
Part = tuple[int, int]


@dataclass(frozen=True)
class LaunchOptions:
    """How a training runs; none of it changes what is computed beyond rounding.

    Parameters
    ----------
    precision
        Precision of matrix products: `no` (that of the weights), `bf16` or `fp16`. Weights keep theirs.
    gradient_accumulation_steps
        Parts of a batch that are computed one after another, to fit into memory.
    trackers
        `tensorboard`, `wandb`; `metrics.jsonl` is always written.
    gradient_checkpointing
        Compute activations inside a block again for its gradient, which needs a fraction of the memory and a third more
        time.
    together
        Whether several processes share each batch; otherwise each trains on all of it, and all get the same weights.
    compile
        Compile the blocks of teacher and surrogate with `torch.compile`.
    tf32
        Use TF32 for matrix products of single precision on GPUs that have it.
    """

    precision: str = "no"
    gradient_accumulation_steps: int = 1
    trackers: tuple[str, ...] = ()
    gradient_checkpointing: bool = False
    together: bool = True
    compile: bool = False
    tf32: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise OptionError(f"unknown precision {self.precision!r}; choose {', '.join(PRECISIONS)}")
        if self.gradient_accumulation_steps < 1:
            raise OptionError(f"gradient_accumulation_steps must be at least 1, not {self.gradient_accumulation_steps}")
        for name in self.trackers:
            if name not in TRACKERS:
                raise OptionError(f"unknown tracker {name!r}; choose {', '.join(TRACKERS)}")
            if importlib.util.find_spec(name) is None:
                raise MissingDependencyError(f"the tracker {name} needs a package: pip install {name}")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LaunchOptions:
        """Return the options from what `config.json` has under `launch`."""
        return cls(**{_FIELDS.get(key, key): value for key, value in config.items()})

    def to_config(self) -> dict[str, Any]:
        """Return the options under the keys of `config.json` and checkpoints, which a resumed run compares."""
        keys = {field: key for key, field in _FIELDS.items()}
        later = {"compile", "tf32"}  # older checkpoints do not have these keys
        return {keys.get(name, name): value for name, value in asdict(self).items() if value or name not in later}


# Keys of `config.json` and checkpoints that differ from the names of fields.
_FIELDS = {"accumulate": "gradient_accumulation_steps", "recompute": "gradient_checkpointing"}


class _Objective(nn.Module):
    """The objective as a module, so that DistributedDataParallel reduces the gradients of the model's parameters."""

    def __init__(self, model: nn.Module, objective: Callable[[Any, int], tuple[Tensor, dict[str, Tensor]]]):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Any, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        return self.objective(batch, step)


class TrainingAccelerator:
    """One of the processes of a training.

    Parameters
    ----------
    model, objective
        As in `fit`; the model is on the device that it is trained on.
    optimizers
        Optimisers of the model.
    launch
        Precision, accumulation, trackers.
    batch_size
        Images per step, over all processes and parts.
    out
        Directory that trackers write to.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[Any, int], tuple[Tensor, dict[str, Tensor]]],
        optimizers: Sequence[Optimizer],
        launch: LaunchOptions,
        batch_size: int,
        out: Path | None = None,
    ):
        # accelerate keeps the precision and device of an earlier training in this process.
        AcceleratorState._reset_state(reset_partial_state=not torch.distributed.is_initialized())
        on_cpu = next(model.parameters()).device.type == "cpu"
        if arguments := join_processes():  # accelerate itself would read what a killed group left in the store
            PartialState(cpu=on_cpu, **arguments)
        try:
            self.accelerator = Accelerator(
                cpu=on_cpu, mixed_precision=launch.precision, log_with=list(launch.trackers) or None,
                project_dir=str(out or "."),
            )  # fmt: skip
        except ValueError as error:
            raise OptionError(f"precision {launch.precision!r} is not available here: {one_line(error)}") from error
        self.launch = launch
        n = self.accelerator.num_processes if launch.together else 1
        parts = launch.gradient_accumulation_steps
        if batch_size % (n * parts):
            raise OptionError(f"a batch of {batch_size} images does not divide into {n} processes times {parts} parts")
        self.part: Part = (self.accelerator.process_index if launch.together else 0, n)
        self.main = self.accelerator.is_main_process
        self.module = self.accelerator.prepare_model(_Objective(model, objective), evaluation_mode=not launch.together)
        self.optimizers = [self.accelerator.prepare_optimizer(optimizer) for optimizer in optimizers]

    def seed(self, number: int) -> None:
        """Seed what a step draws: each process differently, the first as if it were alone."""
        torch.manual_seed((number + self.part[0] * STRIDE) % 2**63)

    def gradient(self, source: Iterator[Any], step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the gradient of one step; return the mean loss of this process and the metrics of the last part."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        total, metrics = torch.zeros(()), {}
        for index in range(self.launch.gradient_accumulation_steps):
            last = index == self.launch.gradient_accumulation_steps - 1
            with contextlib.nullcontext() if last else self.accelerator.no_sync(self.module):
                loss, metrics = self.module(next(source), step)
                self.accelerator.backward(loss / self.launch.gradient_accumulation_steps)
            total = total + loss.detach().cpu() / self.launch.gradient_accumulation_steps
        return total, metrics

    def agree(self, stop: int, loss: Tensor) -> tuple[int, Tensor]:
        """Return the signal by which any process was told to stop, or 0, and the mean loss over processes."""
        if self.part[1] == 1:
            return stop, loss
        asked = [torch.tensor(float(stop == number)) for number in (signal.SIGTERM, signal.SIGINT)]
        terminated, interrupted, total = self.accelerator.reduce(
            torch.stack([*asked, loss]).to(self.accelerator.device)
        ).cpu()
        agreed = signal.SIGTERM if terminated > 0 else signal.SIGINT if interrupted > 0 else 0
        return int(agreed), total / self.part[1]

    def update(self, parts: Sequence[nn.Module], clip: float | None) -> None:
        """Clip the gradient of each part of the model, and update the weights."""
        if clip is not None:
            self.accelerator.unscale_gradients()
            for part in parts:
                nn.utils.clip_grad_norm_(part.parameters(), clip)
        for optimizer in self.optimizers:
            optimizer.step()

    def track(self, config: dict[str, Any]) -> None:
        """Start the trackers."""
        if self.launch.trackers:
            self.accelerator.init_trackers("raptor", {key: str(value) for key, value in config.items()})

    def log(self, line: dict[str, float], step: int) -> None:
        """Send a line of the log to the trackers."""
        if self.launch.trackers:
            self.accelerator.log(line, step=step)

    def end(self) -> None:
        """Close the trackers, and wait for the other processes."""
        if self.launch.trackers:
            self.accelerator.end_training()
        self.accelerator.wait_for_everyone()
