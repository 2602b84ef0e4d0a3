"""How many phases, where, and how sure: everything that is said about the phases of one model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from raptor.display import Displayed
from raptor.errors import MatrixError, OptionError
from raptor.flow import DepthFlow
from raptor.matrix import as_matrices, check_cosines
from raptor.phases import Phases
from raptor.resampling import DRAWS, BinnedMean
from raptor.segmentation import Scored, Segmentation, check_choices, check_possible, segment, segment_values
from raptor.similarity import ALL, Similarity, check_group, groups_of, layer_similarity
from raptor.solvers import best_boundaries, best_suffixes
from raptor.structure import FEWEST, Structure, describe_structure
from raptor.trajectory import Trajectory
from raptor.useful_k import most_phases, useful_k

AUTO = "auto"


@dataclass(frozen=True)
class Bootstrap:
    """How often resampled images say the same.

    Frequencies tend to one with more images however small the gap, so read them beside the gap and the list of
    near-optimal partitions.

    Parameters
    ----------
    n
        Number of resamples.
    boundary_frequency
        Share of resamples whose best partition into the same k has a boundary after a layer.
    k_frequency
        Share of resamples whose useful k is this.
    """

    n: int
    boundary_frequency: dict[int, float]
    k_frequency: dict[int, float]


@dataclass(frozen=True)
class FoundPhases(Displayed):
    """The phases of a model's depth.

    Parameters
    ----------
    similarity
        S of the layers 1..L that was cut.
    segmentation
        The best partition into k phases with its runner-up, and the best for every other k.
    useful_k
        A penalised change-point choice of k, for building a surrogate; no evidence of phases.
    structure
        Whether there are phases at all.
    bootstrap
        None where there were too few images to resample, or none.
    measured
        What the matrix was taken from, with the other token groups and layer 0; None where a matrix was given.
    objective, min_length
        How depth was cut.
    group, seed
        The tokens, and the seed of all resampling.
    """

    similarity: NDArray[Any]
    segmentation: Segmentation
    useful_k: int
    structure: Structure
    bootstrap: Bootstrap | None
    measured: Similarity | None
    objective: str
    min_length: int
    group: str
    seed: int

    @property
    def n(self) -> int:
        """Number of images; 0 where a matrix was given."""
        return 0 if self.measured is None else self.measured.n

    @cached_property
    def by_k(self) -> dict[int, Scored]:
        """The best partition and its score for every k that is tried; up to k itself, what the solver found."""
        most = max(self.k, most_phases(len(self.similarity), self.min_length))
        exact = segment(self.similarity, most, self.objective, self.min_length)
        return {**exact.by_k, **self.segmentation.by_k}

    @property
    def phases(self) -> Phases:
        """The best partition into k phases."""
        return self.segmentation.phases

    @property
    def k(self) -> int:
        """The number of phases that was asked for, or the useful one."""
        return self.phases.k

    @property
    def suggested_k(self) -> int:
        """How many phases the structure is evidence for; 1 where it is a drift."""
        return self.structure.suggested_k

    @property
    def verdict(self) -> str:
        """What the structure is: `drift`, `paced drift` or `blocks`."""
        return self.structure.verdict.kind


def find_phases(
    source: DepthFlow | Similarity | Trajectory | NDArray[Any] | Tensor | list[Any],
    images: Iterable[Any] | None = None,
    k: int | str = AUTO,
    group: str = ALL,
    objective: str = "weighted",
    min_length: int = 2,
    solver: str = "dp",
    seed: int = 0,
    draws: int = DRAWS,
) -> FoundPhases:
    """Cut the layers 1..L into phases, and say how sure that is and whether they are phases at all.

    Parameters
    ----------
    source
        A flow with `images`; or what `layer_similarity` gave or takes; or a similarity matrix of the layers 1..L.
    images
        For a flow: batches of pixels, or whatever `load_images` gives.
    k
        Number of phases; `auto` takes the useful one.
    group
        Tokens: `cls`, `register`, `patch`, `all` or `cls+mean-patch`.
    objective, min_length, solver
        As in `segment`.
    seed, draws
        Of the bootstrap over images.
    """
    check_choices(objective, solver)
    measured: Similarity | None = None
    if isinstance(source, list):
        source = np.asarray(source, dtype=float)
    if isinstance(source, (np.ndarray, Tensor)) and source.ndim == 2:
        matrix, binned = check_cosines(as_matrices(source)[0]), None
    else:
        if isinstance(source, DepthFlow):
            _wanted(k, source.depth, min_length)
            check_group(group, groups_of(source.layout))
        measured = source if isinstance(source, Similarity) else layer_similarity(source, images)
        binned = measured.without_embedding(group)
        matrix = binned.mean().numpy()
    layers = len(matrix)
    wanted = _wanted(k, layers, min_length)
    useful = int(useful_k(matrix[None], min_length)[0])
    chosen = wanted or useful
    enough = binned if binned is not None and binned.n >= FEWEST else None
    return FoundPhases(
        similarity=matrix,
        segmentation=segment(matrix, chosen, objective, min_length, solver),
        useful_k=useful,
        structure=describe_structure(matrix, binned, objective, min_length, seed),
        bootstrap=None if enough is None else _bootstrap(enough, chosen, objective, min_length, seed, draws),
        measured=measured,
        objective=objective,
        min_length=min_length,
        group=group,
        seed=seed,
    )


def _wanted(k: int | str, layers: int, min_length: int) -> int | None:
    """Return the number that was asked for, or None for a choice of our own; raise before any work."""
    if layers < 2:
        raise MatrixError(f"phases are of layers: at least two are needed, not {layers}")
    if isinstance(k, str) and k != AUTO:
        raise OptionError(f"k is a number of phases or 'auto', not {k!r}")
    check_possible(layers, 1 if isinstance(k, str) else k, min_length)
    return None if isinstance(k, str) else int(k)


def _bootstrap(binned: BinnedMean, k: int, objective: str, min_length: int, seed: int, draws: int) -> Bootstrap:
    """Cut resampled means again; always exactly, since this is about the images and not about the solver."""
    boundaries: dict[int, float] = {}
    useful: dict[int, float] = {}
    matrices = binned.resample(draws, seed).numpy()
    values = segment_values(matrices, objective, min_length)
    ends = best_boundaries(values, best_suffixes(values, k), k)[:, :-1]
    for layer in sorted(set(ends.ravel().tolist())):
        boundaries[layer] = float(np.mean(np.any(ends == layer, axis=1)))
    chosen = useful_k(matrices, min_length)
    for number in sorted(set(chosen.tolist())):
        useful[number] = float(np.mean(chosen == number))
    return Bootstrap(draws, boundaries, useful)
