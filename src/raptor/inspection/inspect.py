"""What a model is, in numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from raptor.core.estimate import LayerEstimates
from raptor.core.serialize import key, to_plain
from raptor.inspection.outliers import OutlierTokens
from raptor.models.complexity import count_flops, count_parameters
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint
from raptor.render.notebook import HtmlRepr


@dataclass(frozen=True)
class InspectResult(HtmlRepr):
    """A model's sizes, tokens, cost and preprocessing.

    Parameters
    ----------
    model, family
        Its name, and the adapter that reads it.
    layers, width, heads
        Number of blocks L, features per token, attention heads.
    tokens, grid, patch_size
        Number of tokens by group; rows and columns of patches; height and width of a patch in pixels.
    parameters
        Of the whole module that was loaded, a classifier included.
    flops
        Of one image from embedding to readout; a multiply-add is two.
    image_size, mean, std, resize, preprocessing
        How images are prepared: (height, width), normalisation, size before the crop, and where that was read from.
    head
        Whether there is a classifier.
    sha256
        Of the weights.
    notes
        What you should know about how the model was loaded.
    classes, norm
        With images: their number of classes, and the mean norm of tokens at the layers 0..L.
    outliers
        With images: patches with massive activations, by layer.
    """

    model: str
    family: str
    layers: int
    width: int
    heads: int
    tokens: dict[str, int]
    grid: list[int]
    patch_size: list[int]
    parameters: int
    flops: int
    image_size: list[int]
    mean: list[float]
    std: list[float]
    resize: list[int] | None
    preprocessing: str
    head: bool
    sha256: str
    notes: list[str]
    classes: int | None = key(None, omit_none=True)
    norm: LayerEstimates | None = key(None, omit_none=True)
    outliers: OutlierTokens | None = key(None, omit_none=True)

    def __getitem__(self, name: str) -> Any:
        """Return a value by its JSON key; deprecated."""
        warnings.warn(f"inspect(...)[{name!r}] is deprecated: use .{name}", FutureWarning, stacklevel=2)
        return to_plain(self)[name]


def inspect(teacher: Teacher) -> InspectResult:
    """Describe a teacher: its sizes, tokens, cost and preprocessing.

    Parameters
    ----------
    teacher
        What `load_model` returned.
    """
    parts, preprocessing = teacher.parts, teacher.preprocessing
    blank = torch.zeros(1, 3, *teacher.image_size, device=teacher.device)
    return InspectResult(
        model=teacher.name,
        family=parts.family,
        layers=teacher.depth,
        width=teacher.width,
        heads=parts.heads,
        tokens=teacher.layout.counts,
        grid=list(teacher.layout.grid),
        patch_size=list(parts.patch_size),
        parameters=count_parameters(teacher.module),
        flops=count_flops(teacher, blank),
        image_size=list(teacher.image_size),
        mean=list(preprocessing.mean),
        std=list(preprocessing.std),
        resize=None if preprocessing.resize is None else list(preprocessing.resize),
        preprocessing=preprocessing.source,
        head=teacher.head is not None,
        sha256=fingerprint(teacher.module),
        notes=list(parts.notes),
    )
