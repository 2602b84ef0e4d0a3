"""What `raptor phases` finds of one model or matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from raptor.core.phases import Phases
from raptor.core.serialize import key
from raptor.inspection.separate import OutlierGroup
from raptor.phases.form.candidates import Structure
from raptor.phases.function.interchangeable import Interchangeable
from raptor.phases.function.methods import FitPhases, FunctionMatrices, MethodPhases
from raptor.phases.groups import Agreement, BestPartition, GroupPhases, MeasuredGroup, RunnerUp
from raptor.phases.options import SIMILARITY
from raptor.phases.resampling import Bootstrap
from raptor.phases.segment import ScoredPartition, Segmentation
from raptor.phases.similarity import Similarity
from raptor.render.notebook import HtmlRepr


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
        How far the boundaries of token groups agree, and the partitions of all methods.
    groups
        Similarity and partitions by token group.
    words
        The result in sentences.
    by
        What the phases were found from: `similarity`, `function` or `fit`.
    explained
        Share of the variance of the similarity that each description of its form explains; it describes, and is no
        evidence for or against recurrence.
    methods
        By method: its best partition into k phases, with runner-up and gap.
    function, interchangeable
        Functional similarity, and whether layers of a phase can stand in for one another; None by similarity alone.
    fit
        Costs of segments by least squares, and the surrogate that follows without training; None unless by fit.
    outliers
        Which patches are the token group `outlier`; None where outliers are not separate.
    matrix
        Similarity of the layers 1..L. This and what follows is not in result.json.
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
    by: str = SIMILARITY
    explained: dict[str, float] = field(default_factory=dict)
    methods: dict[str, MethodPhases] = field(default_factory=dict)
    function: FunctionMatrices | None = key(None, omit_none=True)
    interchangeable: Interchangeable | None = key(None, omit_none=True)
    fit: FitPhases | None = key(None, omit_none=True)
    outliers: OutlierGroup | None = key(None, omit_none=True)
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
        """Similarity of the layers 1..L; from `groups` where the result was read from a file."""
        deep = slice(-self.phases.depth, None)
        return self.own_group.similarity[deep, deep] if self.matrix is None else self.matrix

    def roles(self, k: int) -> list[str]:
        """Return what a number of phases is here: `taken`, `useful`, both, or nothing."""
        numbers = {"taken": self.k, "useful": self.useful_k}
        return [name for name, value in numbers.items() if value == k]

    @property
    def first_layer(self) -> int:
        """The layer of the first row of similarity matrices in `groups`: 0 is the embedding."""
        return self.phases.depth + 1 - len(self.own_group.similarity)
