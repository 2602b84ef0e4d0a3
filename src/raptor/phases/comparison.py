"""The phases of several models, each with what it was measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.serialize import Key
from raptor.phases.result import PhasesResult
from raptor.render.notebook import HtmlRepr
from raptor.runtime.rundir import Damage


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPhases:
    """The phases of one of several models.

    Parameters
    ----------
    model, data
        Name of the model, and its images as they were given.
    images, layers
        Number of images and of layers.
    result
        The phases.
    damaged
        Images that were skipped.
    figures
        Paths of its figures in the run directory.
    """

    model: str
    data: str
    images: int
    layers: int
    result: Annotated[PhasesResult, Key(inline=True)]
    damaged: list[Damage]
    figures: list[str]


@dataclass(frozen=True, eq=False)
class PhasesComparison(HtmlRepr):
    """The phases of several models.

    Parameters
    ----------
    models
        One entry per model, in the order in which they were given.
    """

    models: list[ModelPhases]


# What `raptor phases` returns: of one model or matrix, or of several models.
AnyPhasesResult = PhasesResult | PhasesComparison
