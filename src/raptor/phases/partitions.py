"""The partitions that follow from what was measured, by each method, and the result that they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from raptor.core.bootstrap import BinnedMean
from raptor.core.phases import Phases
from raptor.phases.choose_k import given_k, most_phases, useful_k
from raptor.phases.form.candidates import BLOCKS
from raptor.phases.form.structure import FEWEST, describe_structure, explained_variance
from raptor.phases.function.methods import Fit, Function, MethodPhases
from raptor.phases.groups import (
    MATRIX,
    GroupPhases,
    MeasuredGroup,
    best_partitions,
    compare_groups,
    measured_groups,
)
from raptor.phases.options import FIT, FUNCTION, SIMILARITY, PhasesOptions
from raptor.phases.resampling import bootstrap_partitions
from raptor.phases.result import PhasesResult
from raptor.phases.segment import Segmentation, segment
from raptor.phases.sentences import agreement_sentences, method_sentences, partition_sentence, structure_sentence
from raptor.phases.similarity import Similarity


class Partitions:
    """What was measured, and the partitions that follow from it by each method.

    Parameters
    ----------
    options
        How depth is partitioned.
    measured, matrix, binned
        As `_measure` returns them.
    """

    def __init__(
        self, options: PhasesOptions, measured: Similarity | None, matrix: NDArray[Any], binned: BinnedMean | None
    ):
        self.options, self.measured, self.matrix, self.binned = options, measured, matrix, binned
        self.function: Function | None = None
        self.fit: Fit | None = None

    def _segment(self, method: str, k: int) -> Segmentation:
        if method == FUNCTION and self.function is not None:
            return self.function.segment(k)
        if method == FIT and self.fit is not None:
            return self.fit.segment(k)
        return segment(self.matrix, k, self.options.objective, self.options.min_length, self.options.solver)

    def result(self, seed: int, draws: int) -> PhasesResult:
        """Put together all that is known of one partition."""
        options, measured, matrix = self.options, self.measured, self.matrix
        useful = int(useful_k(matrix[None], options.min_length)[0])
        by_method = {SIMILARITY: useful}
        if self.function is not None:
            by_method[FUNCTION] = self.function.useful_k
        if self.fit is not None:
            by_method[FIT] = self.fit.useful_k
        given = given_k(options, len(matrix))
        chosen = given or by_method[options.by]
        segmentation = self._segment(options.by, chosen)
        phases, runner = segmentation.phases, MethodPhases.of(segmentation).runner_up
        binned = self.function.binned if options.by == FUNCTION and self.function is not None else self.binned
        bootstrap = None
        if binned is not None and binned.n >= FEWEST and options.by != FIT:
            bootstrap = bootstrap_partitions(binned, chosen, options.objective, options.min_length, seed, draws)
        most = max(phases.k, most_phases(len(matrix), options.min_length))
        exact = self._segment(options.by, most) if options.by == FIT else self._exact(options.by, most)
        by_k = best_partitions({**exact.by_k, **segmentation.by_k})  # up to k, what the solver found
        own = best_partitions(self._exact(SIMILARITY, most).by_k) if options.by != SIMILARITY else by_k
        groups: dict[str, MeasuredGroup | GroupPhases] = {MATRIX: GroupPhases(matrix, own)}
        if measured is not None:
            groups = measured_groups(measured, options.group, own, options.objective, options.min_length)
        structure = describe_structure(matrix, self.binned, options.objective, options.min_length, seed)
        verdict = structure.verdict
        assert verdict is not None
        methods = {method: MethodPhases.of(self._segment(method, chosen)) for method in by_method}
        agreement = replace(
            compare_groups(groups, phases),
            similarity=methods[SIMILARITY].phases,
            function=methods[FUNCTION].phases if FUNCTION in methods else None,
            fit=methods[FIT].phases if FIT in methods else None,
            even=Phases.even(len(matrix), chosen),
        )
        interchangeable = None
        if self.function is not None:
            interchangeable = self.function.interchangeable(given or self.function.useful_k, seed)
        n = 0 if measured is None else measured.n
        fit = None if self.fit is None else self.fit.phases(phases, seed)
        return PhasesResult(
            group=MATRIX if measured is None else options.group,
            objective=segmentation.objective,
            min_length=options.min_length,
            k=phases.k,
            suggested_k=int(verdict.detail or 1) if verdict.kind == BLOCKS else 1,
            useful_k=by_method[options.by],
            phases=phases,
            boundaries=list(phases.boundaries),
            score=segmentation.score,
            runner_up=runner,
            near_optimal_truncated=segmentation.near_optimal_truncated,
            near_optimal=list(segmentation.near_optimal),
            by_k=by_k,
            bootstrap=bootstrap,
            structure=structure,
            verdict=verdict.kind,
            agreement=agreement,
            groups=groups,
            words=[
                partition_sentence(segmentation, bootstrap, 0 if binned is None else binned.n),
                structure_sentence(structure, verdict, phases.k, len(matrix), options.min_length),
                *agreement_sentences(agreement, phases),
                *method_sentences(methods, interchangeable, fit),
            ],
            by=options.by,
            explained=explained_variance(matrix, structure, phases.k),
            methods=methods,
            function=None if self.function is None else self.function.matrices(),
            interchangeable=interchangeable,
            fit=fit,
            matrix=matrix,
            segmentation=segmentation,
            measured=measured,
            n=n,
            seed=seed,
        )

    def _exact(self, method: str, k: int) -> Segmentation:
        """Return the best partitions by dynamic programming, whichever solver the options name."""
        matrix = self.function.matrix if method == FUNCTION and self.function is not None else self.matrix
        return segment(matrix, k, self.options.objective, self.options.min_length)
