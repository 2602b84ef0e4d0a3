"""Find the phases of a model's depth: how many, where, how certain, and whether they are phases at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from raptor.core.batches import ImageSource
from raptor.core.bootstrap import DRAWS, BinnedMean
from raptor.core.flow import DepthFlow
from raptor.core.options import old_keywords
from raptor.core.phases import Phases
from raptor.core.serialize import key
from raptor.core.trajectory import Trajectory
from raptor.phases.candidates import BLOCKS, Structure
from raptor.phases.choose_k import given_k, most_phases, useful_k
from raptor.phases.groups import (
    MATRIX,
    Agreement,
    BestPartition,
    GroupPhases,
    MeasuredGroup,
    RunnerUp,
    best_partitions,
    compare_groups,
    measured_groups,
)
from raptor.phases.matrix import as_matrices, check_cosines
from raptor.phases.objectives import find_objective
from raptor.phases.options import PhasesOptions
from raptor.phases.resampling import Bootstrap, bootstrap_partitions
from raptor.phases.segment import ScoredPartition, Segmentation, segment
from raptor.phases.sentences import agreement_sentences, partition_sentence, structure_sentence
from raptor.phases.similarity import Similarity, check_group, groups_of, layer_similarity
from raptor.phases.solvers import find_solver
from raptor.phases.structure import FEWEST, describe_structure
from raptor.render.notebook import HtmlRepr
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

Source = DepthFlow | Similarity | Trajectory | NDArray[Any] | Tensor | list[Any]


@dataclass(frozen=True, eq=False)
class PhasesResult(HtmlRepr):
    """The phases of a model's depth.

    Parameters
    ----------
    group, objective, min_length
        Token group (`matrix` where a matrix was given) and how depth was partitioned.
    k
        Number of phases: the given one, or `useful_k`.
    suggested_k
        Number of phases that the similarity is evidence for; 1 for a drift.
    useful_k
        Number of phases for building a surrogate, by change-point detection; not evidence of phases.
    phases, boundaries, score
        The best partition into k phases, the last layer of each phase but the last, and its score.
    runner_up
        The best other partition; None where there is no other.
    near_optimal_truncated, near_optimal
        All partitions within 0.005 of the best, best first, and whether there are more than the 100 listed.
    by_k
        The best partition for each number of phases.
    bootstrap
        How often resampled images give the same result; None with too few images.
    structure, verdict
        Candidate models of the similarity, and the kind of the chosen one: `drift`, `paced drift` (a non-uniform drift)
        or `blocks`.
    agreement
        How far the boundaries of token groups agree.
    groups
        Similarity and partitions by token group.
    words
        The result in sentences.
    matrix
        Similarity of the layers 1..L that was partitioned. This and what follows is not in result.json.
    segmentation
        The partition as `segment` returned it.
    measured
        Similarity of all token groups, with its images; None where a matrix was given.
    n, seed
        Number of images, 0 where a matrix was given; seed of the resampling.
    """

    group: str
    objective: str
    min_length: int
    k: int
    suggested_k: int
    useful_k: int
    phases: Phases
    boundaries: list[int]
    score: float
    runner_up: RunnerUp | None
    near_optimal_truncated: bool
    near_optimal: list[ScoredPartition]
    by_k: dict[int, BestPartition]
    bootstrap: Bootstrap | None
    structure: Structure
    verdict: str
    agreement: Agreement
    groups: dict[str, MeasuredGroup | GroupPhases]
    words: list[str]
    matrix: NDArray[Any] | None = key(None, skip=True)
    segmentation: Segmentation | None = key(None, skip=True)
    measured: Similarity | None = key(None, skip=True)
    n: int = key(0, skip=True)
    seed: int = key(0, skip=True)

    @property
    def own_group(self) -> GroupPhases:
        """Similarity and partitions of the token group that was partitioned."""
        return self.groups[self.group]

    @property
    def similarity(self) -> NDArray[Any]:
        """Similarity of the layers 1..L that was partitioned; from `groups` where the result was read from a file."""
        deep = slice(-self.phases.depth, None)
        return self.own_group.similarity[deep, deep] if self.matrix is None else self.matrix

    def roles(self, k: int) -> list[str]:
        """Return what a number of phases is here: `taken`, `useful`, `suggested`, several of them, or nothing."""
        numbers = {"taken": self.k, "useful": self.useful_k, "suggested": self.suggested_k}
        return [name for name, value in numbers.items() if value == k]

    @property
    def first_layer(self) -> int:
        """The layer of the first row of similarity matrices in `groups`: 0 is the embedding."""
        return self.phases.depth + 1 - len(self.own_group.similarity)


@old_keywords(PhasesOptions)
def find_phases(
    source: Source,
    images: ImageSource | None = None,
    k: int | str | None = None,
    options: PhasesOptions | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    progress: ProgressLike = True,
) -> PhasesResult:
    """Partition the layers 1..L into phases, with uncertainty and a test of whether they are phases at all.

    Parameters
    ----------
    source
        A flow, with `images`; what `layer_similarity` returned or takes; or a similarity matrix of the layers 1..L.
    images
        For a flow: batches of pixels, or what `load_images` returned.
    k
        Number of phases or `auto`; a shortcut for `PhasesOptions(k=...)`.
    options
        How depth is partitioned; defaults as on the command line.
    seed, draws
        Seed and number of resamples of the bootstrap over images.
    progress
        As in `measure_dynamics`.
    """
    options = options or PhasesOptions()
    if images is not None:
        images = tracked(images, "similarity of layers", progress)
    options = options if k is None else replace(options, k=k)
    find_objective(options.objective)
    find_solver(options.solver)
    measured, matrix, binned = _measure(source, images, options)
    useful = int(useful_k(matrix[None], options.min_length)[0])
    chosen = given_k(options, len(matrix)) or useful
    segmentation = segment(matrix, chosen, options.objective, options.min_length, options.solver)
    enough = binned if binned is not None and binned.n >= FEWEST else None
    bootstrap = None
    if enough is not None:
        bootstrap = bootstrap_partitions(enough, chosen, options.objective, options.min_length, seed, draws)
    return _result(options, measured, matrix, binned, segmentation, bootstrap, useful, seed)


def _measure(
    source: Source, images: ImageSource | None, options: PhasesOptions
) -> tuple[Similarity | None, NDArray[Any], BinnedMean | None]:
    """Return the similarity by token group, and the matrix to partition with the images that it is the mean of."""
    if isinstance(source, list):
        source = np.asarray(source, dtype=float)
    if isinstance(source, (np.ndarray, Tensor)) and source.ndim == 2:
        matrix = check_cosines(as_matrices(source)[0])
        given_k(options, len(matrix))
        return None, matrix, None
    if isinstance(source, DepthFlow):  # mistakes are reported before any work
        given_k(options, source.depth)
        check_group(options.group, groups_of(source.layout))
    measured = source if isinstance(source, Similarity) else layer_similarity(source, images)
    binned = measured.without_embedding(options.group)
    matrix = binned.mean().numpy()
    given_k(options, len(matrix))
    return measured, matrix, binned


def _result(
    options: PhasesOptions,
    measured: Similarity | None,
    matrix: NDArray[Any],
    binned: BinnedMean | None,
    segmentation: Segmentation,
    bootstrap: Bootstrap | None,
    useful: int,
    seed: int,
) -> PhasesResult:
    """Put together all that is known of one partition."""
    phases, runner, gap = segmentation.phases, segmentation.runner_up, segmentation.gap
    most = max(phases.k, most_phases(len(matrix), options.min_length))
    exact = segment(matrix, most, options.objective, options.min_length)
    by_k = best_partitions({**exact.by_k, **segmentation.by_k})  # up to k, what the solver found
    groups: dict[str, MeasuredGroup | GroupPhases] = {MATRIX: GroupPhases(matrix, by_k)}
    if measured is not None:
        groups = measured_groups(measured, options.group, by_k, options.objective, options.min_length)
    structure = describe_structure(matrix, binned, options.objective, options.min_length, seed)
    verdict = structure.verdict
    assert verdict is not None
    agreement, n = compare_groups(groups, phases), 0 if measured is None else measured.n
    return PhasesResult(
        group=MATRIX if measured is None else options.group,
        objective=options.objective,
        min_length=options.min_length,
        k=phases.k,
        suggested_k=int(verdict.detail or 1) if verdict.kind == BLOCKS else 1,
        useful_k=useful,
        phases=phases,
        boundaries=list(phases.boundaries),
        score=segmentation.score,
        runner_up=None if runner is None or gap is None else RunnerUp(runner.phases, runner.score, gap),
        near_optimal_truncated=segmentation.near_optimal_truncated,
        near_optimal=list(segmentation.near_optimal),
        by_k=by_k,
        bootstrap=bootstrap,
        structure=structure,
        verdict=verdict.kind,
        agreement=agreement,
        groups=groups,
        words=[
            partition_sentence(segmentation, bootstrap, n),
            structure_sentence(structure, verdict, phases.k, len(matrix), options.min_length),
            *agreement_sentences(agreement, phases),
        ],
        matrix=matrix,
        segmentation=segmentation,
        measured=measured,
        n=n,
        seed=seed,
    )
