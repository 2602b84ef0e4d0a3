"""What a model is, in numbers."""

from __future__ import annotations

from typing import Any

import torch

from raptor.complexity import count_flops, count_parameters
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint


def inspect(teacher: Teacher) -> dict[str, Any]:
    """Describe a teacher: its sizes, tokens, cost and what it wants of images.

    `parameters` counts the whole module that was loaded, a classifier included; `flops` is one image from
    embedding to readout, a multiply-add being two.

    Parameters
    ----------
    teacher
        What `load_teacher` gave.

    Returns
    -------
    dict
        What `raptor inspect --json` prints.
    """
    parts, preprocessing = teacher.parts, teacher.preprocessing
    blank = torch.zeros(1, 3, *teacher.image_size, device=teacher.device)
    return {
        "model": teacher.name,
        "family": parts.family,
        "layers": teacher.depth,
        "width": teacher.width,
        "heads": parts.heads,
        "tokens": teacher.layout.counts,
        "grid": list(teacher.layout.grid),
        "patch_size": list(parts.patch_size),
        "parameters": count_parameters(teacher.module),
        "flops": count_flops(teacher, blank),
        "image_size": list(teacher.image_size),
        "mean": list(preprocessing.mean),
        "std": list(preprocessing.std),
        "resize": None if preprocessing.resize is None else list(preprocessing.resize),
        "preprocessing": preprocessing.source,
        "head": teacher.head is not None,
        "sha256": fingerprint(teacher.module),
        "notes": list(parts.notes),
    }
