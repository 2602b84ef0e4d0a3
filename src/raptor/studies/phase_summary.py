"""The similarity between layers of a teacher, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raptor.core.phases import Phases
from raptor.models.teachers.teacher import Teacher
from raptor.phases.find import find_phases
from raptor.phases.result import PhasesResult
from raptor.studies.setting import StudySetting

K = 3  # phases of teachers, and blocks of students


@dataclass(frozen=True)
class PhaseSummary:
    """The phases of a teacher.

    Parameters
    ----------
    phases, verdict, suggested_k
        The best partition into k phases, the structure of the similarity, and the k that it suggests.
    similarity
        Mean cosine of layers l and m, L x L, rounded to four digits.
    within, between
        Mean cosine of two layers of the same phase, and of two of different phases.
    n
        Number of images.
    """

    phases: Phases
    verdict: str
    suggested_k: int
    similarity: list[list[float]]
    within: float
    between: float
    n: int


def summarise_phases(setting: StudySetting, teacher: Teacher, k: int = K) -> PhaseSummary:
    """Find k phases of a teacher on training images and summarise them."""
    found = find_phases(teacher, setting.for_phases(), k=k, progress=False)
    within, between = mean_similarity(found)
    return PhaseSummary(
        phases=found.phases,
        verdict=found.verdict,
        suggested_k=found.suggested_k,
        similarity=np.round(found.similarity, 4).tolist(),
        within=within,
        between=between,
        n=found.n,
    )


def mean_similarity(found: PhasesResult) -> tuple[float, float]:
    """Return the mean cosine of two layers of one phase, and of two of different phases."""
    block = np.array([found.phases.block_of(layer) for layer in range(1, found.phases.depth + 1)])
    same = block[:, None] == block[None, :]
    other = ~np.eye(len(block), dtype=bool)
    return float(found.similarity[same & other].mean()), float(found.similarity[~same].mean())
