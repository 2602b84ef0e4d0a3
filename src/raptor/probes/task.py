"""The interface of a probing task, and the registry of tasks."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, cast

from torch import Tensor, nn

from raptor.probes.features import Features
from raptor.probes.targets import Targets

INIT_STD = 0.01


@dataclass(frozen=True)
class Metric:
    """A metric of a task, and how it is shown.

    Parameters
    ----------
    name
        Key in result.json.
    label
        Name that people read; by default the key.
    form
        Format specification, such as `.1%`.
    higher_is_better
        Whether a higher value is better; False for errors.
    """

    name: str
    label: str = ""
    form: str = ".3f"
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name.replace("_", " "))


@dataclass(frozen=True)
class HeadTraining:
    """Default optimisation of a task's heads: the paper's numbers, and learning rates around the paper's.

    Parameters
    ----------
    epochs
        Passes over the training images.
    batch_size
        Images per step.
    lrs
        Peak learning rates; each trains a head.
    weight_decay
        Weight decay of AdamW.
    """

    epochs: float
    batch_size: int
    lrs: tuple[float, ...]
    weight_decay: float = 1e-2


class Task(ABC):
    """A question about an image, the linear head that answers it, and the metrics of its answers.

    Define the class attributes and the abstract methods. Register the class with `@task` to add it to `raptor probe`.

    Attributes
    ----------
    name
        Set by `@task`, or by the class.
    target
        Field of `Features` that holds the ground truth.
    reads
        Fields of `Features` that the head reads.
    metrics
        What is reported. `summary` returns one value for each.
    best
        Name of the metric that selects the learning rate, and that `raptor table1` compares; by default the first.
    training
        Default optimisation of the heads.
    """

    name: ClassVar[str]
    target: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    metrics: ClassVar[tuple[Metric, ...]]
    best: ClassVar[str]
    training: ClassVar[HeadTraining]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names: tuple[Any, ...] = cls.__dict__.get("metrics", ())
        if any(isinstance(name, str) for name in names):
            warnings.warn(f"{cls.__name__}.metrics: use Metric(...) in place of names", FutureWarning, stacklevel=2)
            chosen, sign = cast(tuple[str, float], cls.best)
            cls.metrics = tuple(Metric(name, higher_is_better=name != chosen or float(sign) > 0) for name in names)
            cls.best = chosen
        elif names and "best" not in cls.__dict__:
            cls.best = names[0].name

    @classmethod
    def from_targets(cls, targets: Targets) -> Task:
        """Build the task from the targets of the training images; a registered task must define it."""
        raise NotImplementedError(f"{cls.__name__} has no from_targets: pass an instance of it to raptor.probe")

    @classmethod
    def headline(cls) -> Metric:
        """Return the metric that selects the learning rate."""
        return next(metric for metric in cls.metrics if metric.name == cls.best)

    @abstractmethod
    def head(self, like: Features) -> nn.Module:
        """Return an untrained head, a module from `Features` to a prediction, for features of this shape and device."""

    @abstractmethod
    def constant(self, like: Features) -> Tensor:
        """Return the constant-baseline prediction for these images: the best one that ignores the features."""

    @abstractmethod
    def loss(self, prediction: Tensor, truth: Tensor) -> Tensor:
        """Return the training loss, a mean over the batch."""

    @abstractmethod
    def scores(self, prediction: Tensor, truth: Tensor) -> Tensor:
        """Return an array per image (the first axis); `summary` computes the metrics from means of it over images."""

    @abstractmethod
    def summary(self, mean: Tensor) -> dict[str, Tensor]:
        """Return the metrics from mean scores; leading axes, such as bootstrap resamples, are kept."""

    def shown(self, features: Features) -> Features:
        """Return the features of a training step, such as a sample of the pixels."""
        return features

    def truth(self, features: Features) -> Tensor:
        """Return the ground truth of a batch."""
        found: Tensor = getattr(features, self.target)
        return found

    def answers_as(self, own: Tensor | None) -> bool:
        """Return whether logits of the model's pretrained head are a prediction for this task."""
        return False


@dataclass(frozen=True)
class TaskEntry:
    """A registered task: its class, the field of `Targets` that it needs, and its position."""

    kind: type[Task]
    needs: str
    order: int


TASKS: dict[str, TaskEntry] = {}
Kind = TypeVar("Kind", bound=type[Task])


def task(name: str, needs: str, order: int = 100) -> Callable[[Kind], Kind]:
    """Register a task: `raptor probe` and `raptor table1` then train it wherever the images have what it needs.

    Parameters
    ----------
    name
        Name on the command line (`--task name`) and in result.json.
    needs
        Annotation that it needs: `labels`, `masks` or `depths`, the fields of `Targets`.
    order
        Position in results and tables, whatever is imported first; built-in tasks have 1 to 3.
    """
    known = [field.name for field in fields(Targets) if field.default is None]
    if needs not in known:
        raise ValueError(f"the task {name!r} needs {needs!r}; targets have {', '.join(known)}")

    def register(kind: Kind) -> Kind:
        if kind.from_targets.__func__ is Task.from_targets.__func__:  # type: ignore[attr-defined]
            raise TypeError(f"the task {name!r} cannot be registered: {kind.__name__} must define from_targets")
        kind.name = name
        TASKS[name] = TaskEntry(kind, needs, order)
        ordered = sorted(TASKS.items(), key=lambda item: item[1].order)
        TASKS.clear()
        TASKS.update(ordered)
        return kind

    return register


def small_linear(width: int, outputs: int) -> nn.Linear:
    """Return a linear layer with small random weights and no bias."""
    linear = nn.Linear(width, outputs)
    nn.init.normal_(linear.weight, std=INIT_STD)
    nn.init.zeros_(linear.bias)
    return linear
