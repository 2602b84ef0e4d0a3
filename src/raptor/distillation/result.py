"""What `raptor distill` returns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from raptor.core.phases import Phases
from raptor.core.serialize import key
from raptor.distillation.distill import STAGES
from raptor.evaluation.evaluate import FidelityResult
from raptor.render.notebook import HtmlRepr
from raptor.training.log import METRICS

STAGE_NAMES = ("blockwise", "end-to-end")
POINTS = 200  # points per stage that a figure shows


@dataclass(frozen=True)
class LossPoint:
    """The loss of one training step.

    Parameters
    ----------
    stage
        `blockwise` or `end-to-end`.
    step
        Step of the stage, from 1.
    loss
        Loss of the stage; the two stages have different ones.
    seconds
        Seconds since the stage began.
    """

    stage: str
    step: int
    loss: float
    seconds: float


@dataclass(frozen=True)
class DistillResult(HtmlRepr):
    """A trained surrogate: how it was trained, and how close it is to its teacher.

    Parameters
    ----------
    phases
        Its phases.
    recipe, steps
        Name of the recipe; optimiser steps of both stages.
    train_images, train_seconds, images_per_second
        Number of training images, and how long both stages took.
    fidelity
        Measures on held-out images.
    head_weight
        Weight of the loss on the teacher's classes; None where the surrogate learned states alone.
    precision
        Precision of matrix products in training, `bf16` or `fp16`; None for single precision.
    losses
        Loss by step; empty where nothing was written to disk. Not in result.json.
    """

    phases: Phases
    recipe: str
    steps: list[int]
    train_images: int
    train_seconds: float
    images_per_second: float
    fidelity: FidelityResult
    head_weight: float | None = key(None, omit_none=True)
    precision: str | None = key(None, omit_none=True)
    losses: tuple[LossPoint, ...] = key((), skip=True)


def read_losses(out: Path | None) -> tuple[LossPoint, ...]:
    """Return the losses of both stages from their logs, thinned to what a figure can show.

    Parameters
    ----------
    out
        Run directory; None gives nothing.
    """
    points = []
    for folder, stage in zip(STAGES, STAGE_NAMES, strict=True):
        file = None if out is None else out / folder / METRICS
        lines = [] if file is None or not file.exists() else file.read_text().splitlines()
        for line in map(json.loads, lines[:: max(1, len(lines) // POINTS)]):
            points.append(LossPoint(stage, int(line["step"]), line["loss"], line["seconds"]))
    return tuple(points)
