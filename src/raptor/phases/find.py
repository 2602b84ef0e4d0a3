"""Find the phases of a model's depth: how many, where, how certain, and whether they are phases at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from raptor.core.batches import ImageSource
from raptor.core.bootstrap import DRAWS, BinnedMean
from raptor.core.flow import DepthFlow
from raptor.core.options import old_keywords
from raptor.core.trajectory import Trajectory
from raptor.errors import OptionError
from raptor.inspection.separate import separation
from raptor.phases.choose_k import given_k
from raptor.phases.function.methods import Fit, Function
from raptor.phases.matrix import as_matrices, check_cosines
from raptor.phases.objectives import find_objective
from raptor.phases.options import FIT, FUNCTION, METHODS, PhasesOptions
from raptor.phases.partitions import Partitions
from raptor.phases.result import PhasesResult
from raptor.phases.similarity import Similarity, check_group, groups_of, layer_similarity
from raptor.phases.solvers import find_solver
from raptor.runtime.options import SEPARATE
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

Source = DepthFlow | Similarity | Trajectory | NDArray[Any] | Tensor | list[Any]


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
    options = options if k is None else replace(options, k=k)
    find_objective(options.objective)
    find_solver(options.solver)
    _check_method(source, images, options)
    separated, flow = None, source
    if isinstance(source, DepthFlow) and images is not None:
        separated = separation(options.outliers, source, images)
        flow = source if separated is None else separated.of(source)
    tracking = None if images is None else tracked(images, "similarity of layers", progress)
    measured, matrix, binned = _measure(flow, tracking, options)
    found = Partitions(options, measured, matrix, binned)
    if isinstance(source, DepthFlow) and isinstance(flow, DepthFlow) and images is not None:
        if options.images_for(FUNCTION):
            found.function = Function(flow, images, options, progress)
        if options.images_for(FIT):
            found.fit = Fit(source, images, options, seed, progress, separated)
    result = found.result(seed, draws)
    if separated is None:
        return result
    return replace(result, outliers=separated.group, words=[*result.words, str(separated.group)])


def _check_method(source: Source, images: ImageSource | None, options: PhasesOptions) -> None:
    if options.by not in METHODS:
        raise OptionError(f"phases are found by {', '.join(METHODS)}, not {options.by!r}")
    wanted = [method for method in (FUNCTION, FIT) if options.images_for(method)]
    if wanted and (not isinstance(source, DepthFlow) or images is None):
        raise OptionError(f"finding phases by {wanted[-1]} needs a model and images: a matrix has similarity alone")
    if options.outliers == SEPARATE and (not isinstance(source, DepthFlow) or images is None):
        raise OptionError("separate outliers need a model and images")


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
