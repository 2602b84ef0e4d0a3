"""Phases from function and from fits, beside those from similarity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raptor.core.batches import Batch, BatchList, ImageSource, LoadedImageSet, as_batch
from raptor.core.estimate import LayerEstimates
from raptor.core.flow import DepthFlow
from raptor.core.phases import Phases
from raptor.errors import UnsupportedModelError
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.inspection.separate import Separation
from raptor.models.teachers.teacher import Teacher
from raptor.phases.choose_k import elbow, most_phases, useful_k
from raptor.phases.function.fit import fitted_partition, segment_costs
from raptor.phases.function.interchangeable import Interchangeable, is_interchangeable
from raptor.phases.function.local import FunctionalSimilarity, functional_similarity
from raptor.phases.function.training_free import fit_surrogate
from raptor.phases.groups import BestPartition, RunnerUp, best_partitions
from raptor.phases.options import FIT, FUNCTION, PhasesOptions
from raptor.phases.segment import Segmentation, segment
from raptor.runtime.notes import note
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

FIT_MEASURES = ("r2", "r2_identity", "cosine")  # of the surrogate that was fitted without training


@dataclass(frozen=True)
class MethodPhases:
    """The best partition by one method.

    Parameters
    ----------
    phases, score
        The partition, and its score on the scale of the method.
    runner_up
        The best other partition, with the gap to it; None where there is no other.
    """

    phases: Phases
    score: float
    runner_up: RunnerUp | None

    @classmethod
    def of(cls, found: Segmentation) -> MethodPhases:
        """Summarise a segmentation."""
        other, gap = found.runner_up, found.gap
        runner = None if other is None or gap is None else RunnerUp(other.phases, other.score, gap)
        return cls(found.phases, found.score, runner)


@dataclass(frozen=True, eq=False)
class FunctionMatrices:
    """How far each block can stand in for each layer: rows are layers 1..L, columns the blocks applied there.

    Parameters
    ----------
    update_cosine, relative_error
        By token group, as in `functional_similarity`.
    images
        Number of images.
    by_k
        The best partition for each number of phases.
    """

    update_cosine: dict[str, NDArray[Any]]
    relative_error: dict[str, NDArray[Any]]
    images: int
    by_k: dict[int, BestPartition]


@dataclass(frozen=True, eq=False)
class FitPhases:
    """How well one map fits all layers of a segment, and the surrogate that follows from it without training.

    Parameters
    ----------
    costs
        By first and last layer of a segment: share of the updates that the best map leaves, summed over its layers.
    by_k
        The best partition for each number of phases.
    images
        Number of images.
    surrogate
        R2, R2 of the identity, and cosine of the surrogate at each layer, on images that it was not fitted to; None if
        the blocks of this model cannot be fitted.
    """

    costs: NDArray[Any]
    by_k: dict[int, BestPartition]
    images: int
    surrogate: dict[str, LayerEstimates] | None


class Function:
    """Functional similarity of a model's layers, its partitions, and the test of interchangeability.

    Parameters
    ----------
    flow, images
        The model, and images; as many as the options say are used.
    options
        How depth is partitioned.
    progress
        As in `measure_dynamics`.
    """

    def __init__(self, flow: DepthFlow, images: ImageSource, options: PhasesOptions, progress: ProgressLike):
        some = tracked(first_images(images, options.images_for(FUNCTION) or 0), "functional similarity", progress)
        self.measured: FunctionalSimilarity = functional_similarity(flow, some)
        self.options = options
        self.binned = self.measured.symmetric(options.group)
        self.matrix = self.binned.mean().numpy()
        self.useful_k = int(useful_k(self.matrix[None], options.min_length)[0])

    def segment(self, k: int) -> Segmentation:
        """Return the best partition into k phases."""
        return segment(self.matrix, k, self.options.objective, self.options.min_length, self.options.solver)

    def interchangeable(self, k: int, seed: int) -> Interchangeable:
        """Test whether the layers of the best k phases can stand in for one another."""
        phases, options = self.segment(k).phases, self.options
        return is_interchangeable(self.measured, phases, options.group, options.objective, options.min_length, seed)

    def matrices(self) -> FunctionMatrices:
        """Return what result.json has."""
        groups = self.measured.groups
        most = most_phases(len(self.matrix), self.options.min_length)
        return FunctionMatrices(
            {name: self.measured.update_cosine(name).numpy() for name in groups},
            {name: self.measured.relative_error(name).numpy() for name in groups},
            self.measured.n,
            best_partitions(self.segment(most).by_k),
        )


class Fit:
    """Costs of segments by least squares, their partitions, and the surrogate without training.

    Parameters
    ----------
    flow, images, options, progress
        As in `Function`.
    seed
        Seed of the tokens that are used.
    separated
        Outliers as a token group of their own in the fidelity of the surrogate; None leaves them with other patches.
    """

    def __init__(
        self,
        flow: DepthFlow,
        images: ImageSource,
        options: PhasesOptions,
        seed: int,
        progress: ProgressLike,
        separated: Separation | None = None,
    ):
        self.flow, self.options, self.progress, self.separated = flow, options, progress, separated
        self.images = first_images(images, options.images_for(FIT) or 0)
        self.costs = segment_costs(flow, tracked(self.images, "fit of segments", progress), seed)
        most = most_phases(flow.depth, options.min_length)
        self.by_k = fitted_partition(self.costs, most, options.min_length).by_k
        left = flow.depth * (1 - np.array([self.by_k[k].score for k in sorted(self.by_k)]))
        self.useful_k = elbow(left)

    def segment(self, k: int) -> Segmentation:
        """Return the best partition into k phases."""
        return fitted_partition(self.costs, k, self.options.min_length)

    def phases(self, chosen: Phases, seed: int) -> FitPhases:
        """Return what result.json has; fits a surrogate with the chosen phases on half of the images."""
        fitted = None
        n = sum(map(len, self.images))
        if isinstance(self.flow, Teacher):
            half, other = BatchList(list(self.images)).fit_eval_split()
            try:
                surrogate = fit_surrogate(self.flow, half, chosen, progress=self.progress)
                flows: tuple[DepthFlow, DepthFlow] = (self.flow, surrogate)
                if self.separated is not None:
                    flows = self.separated.of(self.flow), self.separated.of(surrogate)
                by_layer = trajectory_fidelity(*flows, other, chosen, seed)
                fitted = {name: by_layer[name] for name in FIT_MEASURES}
            except UnsupportedModelError as error:
                note(f"no surrogate without training: {error}")
        return FitPhases(self.costs, best_partitions(self.by_k), n, fitted)


def first_images(images: ImageSource, n: int) -> ImageSource:
    """Return n of the images: a fixed random sample of a loaded set, or the first ones of plain batches."""
    return images.sample(n) if isinstance(images, LoadedImageSet) else BatchList(list(_first(images, n)))


def _first(images: ImageSource, n: int) -> Iterator[Batch]:
    for batch in islice(images, None):
        if n <= 0:
            return
        (some,) = islice(BatchList([as_batch(batch)]).with_batch_size(n), 1)
        yield some
        n -= len(some)
