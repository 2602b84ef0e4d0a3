"""What a probe is asked: the interface that the three tasks share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from raptor.probes.features import Features

INIT_STD = 0.01


@dataclass(frozen=True)
class Training:
    """How heads of a task are trained where nothing else is said: the paper's numbers, and rates about its own.

    Parameters
    ----------
    epochs, batch_size
        Passes over the images, images a step.
    rates
        Peak learning rates.
    weight_decay
        Of AdamW.
    """

    epochs: float
    batch_size: int
    rates: tuple[float, ...]
    weight_decay: float = 1e-2


class Task(ABC):
    """A question about an image, a linear head that answers it, and how right the answers are.

    A subclass is made from the training targets: what is constant over images is learned from them.
    """

    name: ClassVar[str]
    target: ClassVar[str]  # field of `Features` that holds the truth
    reads: ClassVar[frozenset[str]]  # fields that the head reads
    metrics: ClassVar[tuple[str, ...]]
    best: ClassVar[tuple[str, float]]  # the metric that heads are selected by, and 1 or -1: whether more is better
    training: ClassVar[Training]

    @abstractmethod
    def head(self, like: Features) -> nn.Module:
        """Return an untrained head for features such as these; it takes `Features` and gives a prediction."""

    @abstractmethod
    def constant(self, like: Features) -> Tensor:
        """Return the prediction for these images of who knows nothing but the training targets."""

    @abstractmethod
    def loss(self, prediction: Tensor, truth: Tensor) -> Tensor:
        """Return what a head minimises, the mean over a batch."""

    @abstractmethod
    def scores(self, prediction: Tensor, truth: Tensor) -> Tensor:
        """Return one array of numbers an image, whose means over images are all that `summary` needs."""

    @abstractmethod
    def summary(self, mean: Tensor) -> dict[str, Tensor]:
        """Return the metrics of means of scores; leading axes (resamples) are kept."""

    def shown(self, features: Features) -> Features:
        """Return what a training step looks at."""
        return features

    def truth(self, features: Features) -> Tensor:
        """Return the targets of a batch."""
        found: Tensor = getattr(features, self.target)
        return found

    def answers_as(self, own: Tensor | None) -> bool:
        """Whether the logits of a model's own classifier are a prediction for this task."""
        return False


def small_linear(width: int, outputs: int) -> nn.Linear:
    """Return a linear map that starts close to zero."""
    linear = nn.Linear(width, outputs)
    nn.init.normal_(linear.weight, std=INIT_STD)
    nn.init.zeros_(linear.bias)
    return linear
