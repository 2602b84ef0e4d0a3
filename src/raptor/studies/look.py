"""What the similarity between layers of a teacher looks like, in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from raptor.models.teachers.teacher import Teacher
from raptor.selection import FoundPhases, find_phases
from raptor.studies.models import Setting


def look_at(setting: Setting, teacher: Teacher, k: int = 3) -> dict[str, Any]:
    """Find k phases; return them with the matrix, what structure it has, and how alike layers of a phase are."""
    found = find_phases(teacher, setting.held_out(), k=k)
    within, between = alike(found)
    return {
        "phases": str(found.phases), "verdict": found.verdict, "suggested_k": found.suggested_k,
        "similarity": np.round(found.similarity, 4).tolist(), "within": within, "between": between, "n": found.n,
    }  # fmt: skip


def alike(found: FoundPhases) -> tuple[float, float]:
    """Return the mean cosine of two layers of one phase, and of two of different phases."""
    block = np.array([found.phases.block_of(layer) for layer in range(1, found.phases.depth + 1)])
    same = block[:, None] == block[None, :]
    other = ~np.eye(len(block), dtype=bool)
    return float(found.similarity[same & other].mean()), float(found.similarity[~same].mean())
