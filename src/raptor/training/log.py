"""The log of a training: one line of JSON every few steps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from raptor.runtime.files import explained, writing
from raptor.training.config import TrainConfig
from raptor.training.schedules import warmup_cosine

METRICS = "metrics.jsonl"
Watch = Callable[[dict[str, float]], None]


class TrainingLog:
    """Writes `metrics.jsonl`; a resumed run drops the lines of steps that it repeats.

    Parameters
    ----------
    path
        The file; None writes nothing.
    first
        Number of steps that were done before.
    watch
        Called with each line.
    """

    def __init__(self, path: Path | None, first: int, watch: Watch | None):
        self.path, self.watch = path, watch
        if path is not None:
            lines = path.read_text(errors="replace").splitlines(keepends=True) if path.exists() and first else []
            with writing(path) as file:
                file.writelines(line.encode() for line in lines if line.endswith("\n") and step_of(line) <= first)

    def write(self, step: int, recipe: TrainConfig, seconds: float, **values: Tensor) -> dict[str, float]:
        """Write and return the line of a step: its values, the learning rate, and the seconds of training."""
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


def step_of(line: str) -> float:
    """Return the step of a line of the log; infinity for a damaged line."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf
