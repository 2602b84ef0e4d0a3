"""How the heads of a probe are trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from raptor.errors import OptionError
from raptor.probes.task import Task
from raptor.training.recipe import Recipe

SEEDS = (0, 1, 2)
WARMUP = 100  # steps, less where there are few
STEPS_AN_EPOCH = 20  # at least: batches are smaller where there are few images


@dataclass(frozen=True)
class Plan:
    """Learning rates, seeds, passes.

    Parameters
    ----------
    rates
        Peak learning rates instead of the task's own; each has a head, and the best on the selection split is reported.
    seeds
        Of initial weights and of the order of images; each is a training of its own.
    epochs, batch_size
        Instead of the task's own.
    """

    rates: Sequence[float] | None = None
    seeds: Sequence[int] = SEEDS
    epochs: float | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        rates = (1.0,) if self.rates is None else self.rates
        if not rates or len(set(rates)) < len(rates) or not all(math.isfinite(rate) and rate > 0 for rate in rates):
            raise OptionError(f"learning rates are above 0, each once, not {list(rates)}")
        if not self.seeds:
            raise OptionError("a probe is trained with at least one seed")
        epochs = 1.0 if self.epochs is None else self.epochs
        if not (math.isfinite(epochs) and epochs > 0) or (self.batch_size is not None and self.batch_size < 1):
            raise OptionError(f"epochs and images a batch are above 0, not {self.epochs} and {self.batch_size}")

    def rates_of(self, task: Task) -> Sequence[float]:
        """Return the learning rates of a task's heads."""
        return task.training.rates if self.rates is None else self.rates

    def recipe(self, task: Task, n: int, seed: int) -> Recipe:
        """Return the optimisation of a task's heads on n images."""
        batch_size = self.batch_size or max(1, min(task.training.batch_size, n // STEPS_AN_EPOCH))
        steps = max(1, round((self.epochs or task.training.epochs) * n / batch_size))
        return Recipe(
            steps,
            batch_size,
            max(self.rates_of(task)),
            warmup=min(WARMUP, steps // 10),
            weight_decay=task.training.weight_decay,
            betas=(0.9, 0.999),
            seed=seed,
        )
