"""One process or many, one precision or two: what accelerate does of a training step."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn
from torch.optim import Optimizer

from raptor.errors import MissingDependencyError, OptionError, one_line

PRECISIONS = ("no", "bf16", "fp16")
TRACKERS = ("tensorboard", "wandb")

STRIDE = 0x9E3779B97F4A7C15  # keeps the seeds of processes apart for all steps

# Which part of every batch is a process's own: (index, number of parts).
Part = tuple[int, int]


@dataclass(frozen=True)
class Launch:
    """How the work is laid out; none of it changes what is computed beyond rounding.

    Parameters
    ----------
    precision
        `no`, `bf16` or `fp16`: of matrix products, the weights staying as they are.
    accumulate
        Parts of a batch that are computed one after another, to fit into memory.
    trackers
        `tensorboard`, `wandb`; `metrics.jsonl` is always written.
    recompute
        Activation checkpointing: what is inside a block is not kept for its gradient but computed once more, which
        needs a fraction of the memory and a third more time.
    together
        Whether several processes take a part of each batch; otherwise each trains on all of it, and they stay the same.
    """

    precision: str = "no"
    accumulate: int = 1
    trackers: tuple[str, ...] = ()
    recompute: bool = False
    together: bool = True

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise OptionError(f"precision {self.precision!r} is none of {', '.join(PRECISIONS)}")
        if self.accumulate < 1:
            raise OptionError(f"a batch is computed in at least 1 part, not {self.accumulate}")
        for name in self.trackers:
            if name not in TRACKERS:
                raise OptionError(f"tracker {name!r} is none of {', '.join(TRACKERS)}")
            if importlib.util.find_spec(name) is None:
                raise MissingDependencyError(f"the tracker {name} needs its package: pip install {name}")


class _Objective(nn.Module):
    """The objective as a module, so that gradients of the model's parameters meet wherever they come from."""

    def __init__(self, model: nn.Module, objective: Callable[[Any, int], tuple[Tensor, dict[str, Tensor]]]):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Any, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        return self.objective(batch, step)


class Workers:
    """This process among those that train together.

    Parameters
    ----------
    model, objective
        As in `fit`; the model is where it shall be trained.
    optimizers
        Of the model.
    launch
        The layout.
    batch_size
        Images a step, over all processes and parts.
    out
        Where trackers write.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[Any, int], tuple[Tensor, dict[str, Tensor]]],
        optimizers: Sequence[Optimizer],
        launch: Launch,
        batch_size: int,
        out: Path | None = None,
    ):
        # An earlier training in this process may have had another precision or device.
        AcceleratorState._reset_state(reset_partial_state=not torch.distributed.is_initialized())
        on_cpu = next(model.parameters()).device.type == "cpu"
        try:
            self.accelerator = Accelerator(
                cpu=on_cpu, mixed_precision=launch.precision, log_with=list(launch.trackers) or None,
                project_dir=str(out or "."),
            )  # fmt: skip
        except ValueError as error:
            raise OptionError(f"precision {launch.precision!r} cannot be had here: {one_line(error)}") from error
        self.launch = launch
        n = self.accelerator.num_processes if launch.together else 1
        if batch_size % (n * launch.accumulate):
            raise OptionError(
                f"a batch of {batch_size} does not divide into {n} processes times {launch.accumulate} parts"
            )
        self.part: Part = (self.accelerator.process_index if launch.together else 0, n)
        self.main = self.accelerator.is_main_process
        self.module = self.accelerator.prepare_model(_Objective(model, objective), evaluation_mode=not launch.together)
        self.optimizers = [self.accelerator.prepare_optimizer(optimizer) for optimizer in optimizers]

    def seed(self, number: int) -> None:
        """Seed what a step draws: in every process something else, the first as if it were alone."""
        torch.manual_seed((number + self.part[0] * STRIDE) % 2**63)

    def gradient(self, source: Iterator[Any], step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Accumulate the gradient of one step; return the mean loss of this process and the last part's metrics."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        total, metrics = torch.zeros(()), {}
        for index in range(self.launch.accumulate):
            last = index == self.launch.accumulate - 1
            with contextlib.nullcontext() if last else self.accelerator.no_sync(self.module):
                loss, metrics = self.module(next(source), step)
                self.accelerator.backward(loss / self.launch.accumulate)
            total = total + loss.detach().cpu() / self.launch.accumulate
        return total, metrics

    def agree(self, stop: bool, loss: Tensor) -> tuple[bool, Tensor]:
        """Return whether any process was asked to stop, and the mean loss over processes."""
        if self.part[1] == 1:
            return stop, loss
        both = self.accelerator.reduce(torch.stack([torch.tensor(float(stop)), loss]).to(self.accelerator.device))
        return bool(both[0] > 0), both[1].cpu() / self.part[1]

    def update(self, parts: Sequence[nn.Module], clip: float | None) -> None:
        """Clip the gradient of each part of the model, and take the step."""
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
        """Give a line of the log to the trackers."""
        if self.launch.trackers:
            self.accelerator.log(line, step=step)

    def end(self) -> None:
        """Wait for the others, and close the trackers."""
        if self.launch.trackers:
            self.accelerator.end_training()
        self.accelerator.wait_for_everyone()
