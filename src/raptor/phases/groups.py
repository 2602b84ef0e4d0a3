"""Partitions in a result: by number of phases, by token group, and how far the groups agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from raptor.core.phases import Phases
from raptor.phases.segment import ScoredPartition, segment
from raptor.phases.similarity import Similarity

MATRIX = "matrix"  # the only group where a matrix was given


@dataclass(frozen=True)
class BestPartition(ScoredPartition):
    """The best partition into a number of phases.

    Parameters
    ----------
    phases, score
        As in `ScoredPartition`.
    gain
        Its score minus the score of a single phase.
    """

    gain: float


@dataclass(frozen=True)
class RunnerUp(ScoredPartition):
    """The best partition beside the one that was found.

    Parameters
    ----------
    phases, score
        As in `ScoredPartition`.
    gap
        How much less it scores; negative where a solver that is not exact missed it.
    """

    gap: float


def best_partitions(by_k: Mapping[int, ScoredPartition]) -> dict[int, BestPartition]:
    """Return partitions by number of phases, with what each gains over a single phase."""
    base = by_k[1].score
    return {k: BestPartition(one.phases, one.score, one.score - base) for k, one in by_k.items()}


@dataclass(frozen=True, eq=False)
class GroupPhases:
    """Similarity and partitions of one token group.

    Parameters
    ----------
    similarity
        Mean cosine between layers, for all layers that were measured (the last row is layer L).
    by_k
        The best partition for each number of phases.
    """

    similarity: NDArray[Any]
    by_k: dict[int, BestPartition]


@dataclass(frozen=True, eq=False)
class MeasuredGroup(GroupPhases):
    """Similarity, CKA and partitions of a token group that was measured on images.

    Parameters
    ----------
    similarity, by_k
        As in `GroupPhases`.
    cka
        Unbiased linear CKA of the group's mean token; None with fewer than four images and for `cls+mean-patch`.
    cka_images_dropped
        Number of images that fill no minibatch of CKA.
    """

    cka: NDArray[Any] | None
    cka_images_dropped: int | None


def measured_groups(
    measured: Similarity, own: str, by_k: dict[int, BestPartition], objective: str, min_length: int
) -> dict[str, MeasuredGroup | GroupPhases]:
    """Partition each token group.

    Parameters
    ----------
    measured
        Similarity by token group.
    own, by_k
        The group that was partitioned already, and its partitions.
    objective, min_length
        How depth is partitioned.
    """
    groups: dict[str, MeasuredGroup | GroupPhases] = {}
    for name in measured.groups:
        partitions = by_k
        if name != own:
            deep = measured.without_embedding(name).mean().numpy()
            partitions = best_partitions(segment(deep, max(by_k), objective, min_length).by_k)
        dropped = measured.ckas[name].dropped if name in measured.ckas else None
        groups[name] = MeasuredGroup(measured.matrix(name), partitions, measured.cka(name), dropped)
    return groups


@dataclass(frozen=True)
class Agreement:
    """How far the boundaries of token groups agree.

    Parameters
    ----------
    boundaries
        By group: the boundaries of its best partition into k phases.
    largest_shift
        By group: largest distance, in layers, between its boundaries and those of the result.
    similarity, function, fit, even
        The best partition into k phases by each method, None where it was not used, and the even split.
    """

    boundaries: dict[str, list[int]]
    largest_shift: dict[str, int]
    similarity: Phases | None = None
    function: Phases | None = None
    fit: Phases | None = None
    even: Phases | None = None


def compare_groups(groups: Mapping[str, GroupPhases], phases: Phases) -> Agreement:
    """Compare the boundaries of each group with those of `phases`."""
    cuts = {name: group.by_k[phases.k].phases.boundaries for name, group in groups.items()}
    shifts = {
        name: max((abs(a - b) for a, b in zip(cut, phases.boundaries, strict=True)), default=0)
        for name, cut in cuts.items()
    }
    return Agreement({name: list(cut) for name, cut in cuts.items()}, shifts)
