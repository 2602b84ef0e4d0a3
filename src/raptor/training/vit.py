"""Training our own ViT as a classifier on any labelled images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from raptor.data.batch import Batch
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.device import resolve_device
from raptor.errors import DataError
from raptor.models.vit import ViT, ViTConfig
from raptor.training.augment import flip, shift
from raptor.training.loop import Watch, fit
from raptor.training.recipe import Recipe
from raptor.training.workers import Part


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images: mirroring, and moving by up to `shift` pixels."""

    flip: bool = True
    shift: int = 0

    def __call__(self, pixels: Tensor) -> Tensor:
        """Augment a batch."""
        return shift(flip(pixels) if self.flip else pixels, self.shift)


def train_vit(
    images: Images | SceneImages,
    config: ViTConfig,
    recipe: Recipe,
    augmentation: Augmentation | None = None,
    out: Path | None = None,
    resume: bool = False,
    device: str = "cpu",
    watch: Watch | None = None,
    about: dict[str, Any] | None = None,
    before: Callable[[int, ViT], None] | None = None,
) -> tuple[ViT, float]:
    """Train a ViT; return it with the seconds that it took.

    Parameters
    ----------
    images
        Labelled images; they are shuffled anew each epoch by the recipe's seed.
    config
        The ViT; `n_classes` must be the number of classes of the images.
    recipe
        The optimisation; its seed decides the initial weights too.
    augmentation
        Mirroring alone by default.
    out, resume, watch, about
        As in `fit`.
    device
        Where to train.
    before
        Called with the step and the model before each step.
    """
    if images.classes is None:
        raise DataError("a ViT is trained as a classifier, but these images have no labels")
    chosen = resolve_device(device)
    augment = augmentation or Augmentation()
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

    everything = {"model": asdict(config), "augmentation": asdict(augment), **(about or {})}
    seconds = fit(model, objective, batches, recipe, out, resume, everything, watch=watch)
    return model, seconds
