"""Training a ViT as a classifier on labelled images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from raptor.core.batches import Batch, LoadedImageSet
from raptor.errors import DataError
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.device import resolve_device
from raptor.runtime.random_state import preserve_random_state
from raptor.training.accelerate import Part
from raptor.training.augment import flip, shift
from raptor.training.config import TrainConfig
from raptor.training.loop import OnStep, fit


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation of training images.

    Parameters
    ----------
    flip
        Whether images are mirrored at random.
    shift
        Largest number of pixels that images are moved by.
    """

    flip: bool = True
    shift: int = 0

    def __call__(self, pixels: Tensor) -> Tensor:
        """Augment a batch."""
        return shift(flip(pixels) if self.flip else pixels, self.shift)


def train_vit(
    images: LoadedImageSet,
    config: ViTConfig,
    recipe: TrainConfig,
    augmentation: Augmentation | None = None,
    out: Path | None = None,
    resume: bool = False,
    device: str = "cpu",
    on_step: OnStep | None = None,
    extra_config: dict[str, Any] | None = None,
    before: Callable[[int, ViT], None] | None = None,
) -> tuple[ViT, float]:
    """Train a ViT; return it and the seconds of training.

    Parameters
    ----------
    images
        Labelled images; they are shuffled each epoch with the recipe's seed.
    config
        The ViT; `n_classes` must be the number of classes of the images.
    recipe
        The optimisation; its seed is also that of the initial weights.
    augmentation
        Only mirroring by default.
    out, resume, on_step, extra_config
        As in `fit`.
    device
        Device to train on.
    before
        Called with the step and the model before each step.
    """
    if images.classes is None:
        raise DataError("training a ViT needs labels; these images have no labels")
    chosen = resolve_device(device)
    augment = augmentation or Augmentation()
    with preserve_random_state():
        torch.manual_seed(recipe.seed)
        model = ViT(config).to(chosen)

    def objective(batch: Batch, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.label is not None
        if before is not None:
            before(step, model)
        pixels, label = batch.pixels.to(chosen), batch.label.to(chosen)
        logits = model(augment(pixels))
        return cross_entropy(logits, label), {"accuracy": (logits.argmax(dim=1) == label).float().mean()}

    def batches(first: int, size: int, part: Part) -> Iterator[Batch]:
        return images.shuffled(first, size, recipe.seed, part)

    everything = {"model": config.to_config(), "augmentation": asdict(augment), **(extra_config or {})}
    seconds = fit(model, objective, batches, recipe, out, resume, everything, on_step=on_step)
    return model, seconds
