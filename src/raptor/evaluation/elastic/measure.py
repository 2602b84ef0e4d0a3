"""A surrogate that is run for other numbers of steps: how close its last states are to the teacher's, and how often
they are classified correctly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from raptor.core.batches import Batch, ImageSource
from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow, is_right, last_state
from raptor.core.phases import Phases
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.elastic import ElasticModel
from raptor.models.load import load_model
from raptor.models.surrogate import Surrogate

REPORTED = ("r2", "cosine", "relative_epsilon")


@dataclass(frozen=True)
class ElasticDepth:
    """A surrogate at one number of steps, compared with the last layer of its teacher.

    Parameters
    ----------
    steps
        Steps of each phase.
    r2, cosine, relative_epsilon
        Measures of `fidelity` on all tokens of the last layer.
    top1
        Top-1 accuracy with the teacher's classifier; None without one or without labels.
    """

    steps: Phases
    r2: Estimate[float]
    cosine: Estimate[float]
    relative_epsilon: Estimate[float]
    top1: Estimate[float] | None


class _Whole:
    """A flow of one step, which is the whole rollout of another flow."""

    def __init__(self, flow: DepthFlow):
        self.flow, self.depth, self.width, self.layout, self.head = flow, 1, flow.width, flow.layout, flow.head

    def embed(self, pixels: Tensor) -> Tensor:
        """Embed with the flow."""
        return self.flow.embed(pixels)

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Return the last states."""
        return last_state(self.flow, tokens)

    def readout(self, tokens: Tensor) -> Tensor:
        """Read out with the flow."""
        return self.flow.readout(tokens)


def elastic_depths(
    surrogate: Surrogate, images: ImageSource, steps: Sequence[int], seed: int = 0, labelled: bool = True
) -> dict[int, ElasticDepth]:
    """Measure a surrogate for several numbers of steps.

    Parameters
    ----------
    surrogate
        A surrogate with its teacher.
    images
        Held-out images.
    steps
        Total numbers of steps.
    seed
        Seed of the bootstrap over images.
    labelled
        Whether the images have labels that the teacher's classifier can predict.
    """
    return {n: _measure(surrogate, images, n, seed, labelled) for n in steps}


def _measure(surrogate: Surrogate, images: ImageSource, n: int, seed: int, labelled: bool) -> ElasticDepth:
    elastic = load_model(ElasticModel(surrogate, n), preprocessing=surrogate.teacher.preprocessing)
    head, right = surrogate.head if labelled else None, BinnedMean()

    def observe(batch: Batch | Tensor, layer: int, teacher: Tensor, ours: Tensor) -> None:
        if layer == 1 and head is not None and isinstance(batch, Batch) and batch.label is not None:
            right.add(is_right(head(ours), batch.label))

    by_layer: dict[str, LayerEstimates] = trajectory_fidelity(
        _Whole(surrogate.teacher), _Whole(elastic), images, Phases((1,)), seed, observe=observe
    )
    measures = {name: by_layer[name].at("all", 0) for name in REPORTED}
    assert isinstance(elastic.module, ElasticModel)
    top1 = Estimate.from_mean(right, seed) if right.n else None
    return ElasticDepth(elastic.module.steps, top1=top1, **measures)
