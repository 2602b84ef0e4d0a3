"""Cache keys for arrays that were computed from a model and a set of images."""

from __future__ import annotations

import hashlib
from typing import Any

from raptor.core.batches import LoadedImageSet
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint


def identity_of(teacher: Teacher, images: LoadedImageSet) -> dict[str, Any]:
    """Return a cache key for a teacher (from its weights) and a set of images (from its content)."""
    return {
        "teacher": fingerprint(teacher.module),
        "head": None if teacher.linear is None else fingerprint(teacher.linear),
        "image_size": list(teacher.image_size),
        "images": len(images),
        "set": hashlib.sha256(images.identity().encode()).hexdigest()[:16],
    }
