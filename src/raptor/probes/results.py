"""Results of probes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from torch import Tensor

from raptor.core.estimate import Estimate
from raptor.core.serialize import Key, key
from raptor.probes.task import Metric
from raptor.render.notebook import HtmlRepr

LINEAR_PROBE, PRETRAINED, CONSTANT = "fine-tuned", "own", "constant"  # heads, as result.json names them


@dataclass(frozen=True)
class HeadMetrics:
    """Metrics of one head on the reported images.

    Parameters
    ----------
    metrics
        By metric, the mean over seeds with its 95% bootstrap interval over images.
    by_seed
        By metric, one value per seed.
    draws
        By metric, one value per bootstrap resample; heads and models are resampled with the same images. None in a
        result that was read from a file.
    """

    metrics: Annotated[dict[str, Estimate[float]], Key(inline=True)]
    by_seed: Annotated[dict[str, list[float]], Key(inline=True, suffix="_by_seed")]
    draws: dict[str, Tensor] | None = field(default=None, repr=False, compare=False, metadata={"key": Key(skip=True)})

    def __getitem__(self, metric: str) -> Estimate[float]:
        return self.metrics[metric]


@dataclass(frozen=True)
class ProbeResult(HtmlRepr):
    """The result of probing one task.

    Parameters
    ----------
    reported
        Metrics of the linear probe, the same as `heads["fine-tuned"]`.
    head
        Name of the head that `reported` is about.
    heads
        `fine-tuned` is the linear probe; `own` the pretrained head, unchanged, if the model has one for these classes;
        `constant` the constant baseline.
    lr
        The selected learning rate.
    selection
        By learning rate, the deciding metric on the selection images, averaged over seeds.
    images
        Number of images of the three sets: `train`, `select`, `report`.
    steps, batch_size
        Steps of one training, and images per step.
    notes
        What you should know about this result.
    metrics
        The task's metrics and their formats; empty in a result that was read from a file.
    """

    reported: Annotated[HeadMetrics, Key(inline=True)]
    head: str
    heads: dict[str, HeadMetrics]
    lr: Annotated[float, Key(name="rate")]
    selection: dict[float, float]
    images: Annotated[dict[str, int], Key(name="images_by_split")]
    steps: int
    batch_size: int
    notes: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = key((), skip=True)


@dataclass(frozen=True)
class ProbeReport(HtmlRepr):
    """The result of `raptor probe`: one probe per task.

    Parameters
    ----------
    task
        Names of the tasks, separated by commas.
    layer
        Layer whose states are read.
    single
        The result, if there is one task: result.json has its keys at the top level.
    tasks
        The results by task, if there are several.
    """

    task: str
    layer: int
    single: ProbeResult | None = key(None, inline=True)
    tasks: dict[str, ProbeResult] | None = key(None, omit_none=True)

    @classmethod
    def of(cls, results: dict[str, ProbeResult], layer: int) -> ProbeReport:
        """Build the report from the results by task."""
        names = ",".join(results)
        if len(results) == 1:
            return cls(names, layer, single=next(iter(results.values())))
        return cls(names, layer, tasks=results)

    @property
    def by_task(self) -> dict[str, ProbeResult]:
        """The results by task, whatever their number."""
        return self.tasks if self.tasks is not None else {self.task: self.single} if self.single is not None else {}
