"""Validation: a distillation never returns a surrogate that is worse than its start.

With as many blocks as layers, the start is exact and training only adds noise. With few images, training may overfit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from raptor.core.batches import Batch, LoadedImageSet
from raptor.distillation.activation_cache import StatesCache
from raptor.distillation.losses import States, StateVariance, TrajectoryLoss
from raptor.distillation.recipes import Distillation
from raptor.distillation.stage_losses import end_to_end_loss
from raptor.models.surrogate import Surrogate
from raptor.runtime.notes import note

MOST = 64  # validation images
SHARE = 16  # training takes at least this many images per validation image
FEWEST = 20  # images; from fewer, none are split off, and training images validate


ImagesOrStates = LoadedImageSet | StatesCache


def split_off(images: ImagesOrStates, recipe: Distillation) -> tuple[ImagesOrStates, ImagesOrStates]:
    """Return what to train on, and what to validate on.

    Parameters
    ----------
    images
        Training images, or their cached states.
    recipe
        A short training needs few validation images.
    """
    seen = sum(stage.steps * stage.batch_size for stage in (recipe.blockwise, recipe.end_to_end))
    n = max(2, min(MOST, seen // SHARE, len(images) // 10))
    return images.split_off(n) if len(images) >= FEWEST else (images, images.sample(n))


@dataclass
class Validation:
    """The error of a surrogate before and after training, on images that it is not trained on.

    Parameters
    ----------
    surrogate
        Trained in place; its weights at the time of creation are the start.
    images
        Validation images, or their cached states.
    truth_of
        Returns the teacher's states of a batch.
    loss, variance
        Loss of the end-to-end stage, and the variance that normalises it.
    """

    surrogate: Surrogate
    images: ImagesOrStates
    truth_of: Callable[[Batch | States], States]
    loss: TrajectoryLoss
    variance: StateVariance | None
    weights: dict[str, Tensor] = field(init=False)
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.weights = {name: value.clone() for name, value in self.surrogate.raptor.state_dict().items()}
        self.start = self.error()

    @torch.no_grad()
    def error(self) -> float:
        """Return the mean error of the rollout from layer 0."""
        layout, raptor, total = self.surrogate.teacher.layout, self.surrogate.raptor.eval(), 0.0
        for batch in self.images:
            error = end_to_end_loss(raptor, self.truth_of(batch), layout, self.loss, self.variance)
            total += len(batch) * float(error)
        return total / len(self.images)

    def keep_better(self) -> dict[str, float | int | str]:
        """Restore the start where training made the surrogate worse; return the errors and which one was kept."""
        end = self.error()
        worse = not end <= self.start  # also where it is not a number
        if worse:
            self.surrogate.raptor.load_state_dict(self.weights)
            note(
                f"training made the surrogate worse on {len(self.images)} images that it is not trained on (error "
                f"{self.start:.4g} before, {end:.4g} after): its weights at the start are kept"
            )
        kept = "start" if worse else "end"
        return {"images": len(self.images), "start": self.start, "end": end, "kept": kept}
