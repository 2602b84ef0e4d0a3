"""What a computed array is of: which weights, on which images."""

from __future__ import annotations

import hashlib
from typing import Any

from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint


def identity_of(teacher: Teacher, images: Any) -> dict[str, Any]:
    """Name a teacher by its weights and a set of images by what is in it, for a cache to compare."""
    return {
        "teacher": fingerprint(teacher.module),
        "head": None if teacher.linear is None else fingerprint(teacher.linear),
        "image_size": list(teacher.image_size),
        "images": len(images),
        "set": hashlib.sha256(images.identity.encode()).hexdigest()[:16],
    }
