"""`raptor.train`: train a ViT as a classifier and measure its accuracy."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from raptor.core.accuracy import top1
from raptor.core.batches import LoadedImageSet
from raptor.core.estimate import Estimate
from raptor.core.preprocessing import Preprocessing
from raptor.core.serialize import key, to_plain
from raptor.data.load import HELD_OUT, parse_source, training_split
from raptor.data.options import LoadOptions
from raptor.data.scenes import draw as scenes
from raptor.data.scenes import layout as scene_layout
from raptor.data.train_val_test import check_classes
from raptor.errors import OptionError
from raptor.models.checkpoints import save_vit
from raptor.models.complexity import count_parameters
from raptor.models.load import load_model
from raptor.models.vit import ViT, ViTConfig
from raptor.render.notebook import HtmlRepr
from raptor.runtime.distributed import is_main_process
from raptor.runtime.options import RunOptions
from raptor.runtime.progress import Progress, ProgressLike
from raptor.runtime.tracked import Tracked
from raptor.training.config import TrainConfig
from raptor.training.options import TrainOptions
from raptor.training.vit import Augmentation, train_vit

EVAL_IMAGES = 10_000
EVAL_BATCH = 250  # images per batch of the evaluation


@dataclass(frozen=True)
class TrainResult(HtmlRepr):
    """A trained ViT and its accuracy.

    Parameters
    ----------
    top1
        Top-1 accuracy on held-out images.
    epochs, steps
        Passes over the training images; optimiser steps.
    train_images, train_seconds, images_per_second
        Number of training images, and how long the training took.
    drop_path
        Probability of skipping a layer (stochastic depth).
    parameters
        Number of parameters.
    model
        The ViT. Not in result.json.
    """

    top1: Estimate[float]
    epochs: float
    steps: int
    train_images: int
    train_seconds: float
    images_per_second: float
    drop_path: float
    parameters: int
    model: ViT | None = key(None, skip=True)


@dataclass(frozen=True)
class TrainingSetup:
    """Everything that a training needs, checked before it starts.

    Parameters
    ----------
    images, held_out
        Training images, and those to measure accuracy on.
    preprocessing
        How images become pixels.
    vit, recipe, augmentation
        The ViT, its optimisation, and what is done to training images.
    """

    images: LoadedImageSet
    held_out: LoadedImageSet
    preprocessing: Preprocessing
    vit: ViTConfig
    recipe: TrainConfig
    augmentation: Augmentation

    @property
    def damaged(self) -> list[dict[str, str]]:
        """Images that were skipped."""
        return [*self.images.damaged, *self.held_out.damaged]


def train(
    data: str,
    options: TrainOptions | None = None,
    eval_data: str | None = None,
    eval_images: int = EVAL_IMAGES,
    images: int | None = None,
    image_size: int | None = None,
    out: Path | None = None,
    resume: bool = False,
    device: str = "auto",
    loading: LoadOptions | None = None,
    progress: ProgressLike = True,
) -> TrainResult:
    """Train a ViT as a classifier on labelled images, and measure its accuracy on held-out ones.

    Parameters
    ----------
    data
        Labelled images, as `load_images` takes them; `DATA:SPLIT` names a split.
    options
        The ViT and its training.
    eval_data, eval_images
        Images to measure accuracy on, by default the held-out split of `data`, and their number.
    images, image_size
        Number of training images, by default all; their side in pixels, by default 64.
    out, resume
        Directory for checkpoints, `metrics.jsonl` and the model; continue from the checkpoint in it.
    device
        `auto`, `cpu`, `cuda` or `mps`.
    loading
        How images are read.
    progress
        As in `distill`.
    """
    loading, shown = loading or LoadOptions(), Progress.of(progress)
    size = None if image_size is None else str(image_size)
    run_options = RunOptions(out=out, device=device, images=images, image_size=size, quiet=True)
    setup = prepare_training(data, options or TrainOptions(), eval_data, eval_images, loading, run_options)
    model, seconds = run_training(setup, data, loading, run_options, resume, shown)
    return measure_training(setup, model, seconds, shown)


def prepare_training(
    data: str,
    options: TrainOptions,
    eval_data: str | None,
    eval_images: int,
    loading: LoadOptions,
    run_options: RunOptions,
) -> TrainingSetup:
    """Load the images and check the options; parameters are those of `train`."""
    height, width = run_options.size or (scene_layout.SIZE, scene_layout.SIZE)
    if height != width:
        raise OptionError(f"the ViT takes square images, not {height}x{width}: give --image-size one number")
    recipe = TrainConfig(
        steps=options.steps, batch_size=options.batch_size, lr=options.lr, muon_lr=options.muon_lr or None,
        warmup=options.warmup, weight_decay=options.weight_decay, seed=options.seed,
    )  # fmt: skip
    source, split = parse_source(data)
    preprocessing = training_preprocessing(source, height)
    generated = source == "scenes" and run_options.images is None and options.epochs is None
    n = recipe.steps * recipe.batch_size if generated else run_options.images
    images = loading.load(source, preprocessing, training_split(split, eval_data), n, seed=options.seed)
    held_out = loading.load(
        eval_data or source, preprocessing, None if eval_data else HELD_OUT, eval_images, EVAL_BATCH
    )
    check_classes(images, held_out, "report", whole=False)
    if options.epochs is not None:
        if not math.isfinite(options.epochs):
            raise OptionError(f"--epochs takes a finite number of passes over the images, not {options.epochs}")
        recipe = replace(recipe, steps=max(1, round(options.epochs * len(images) / recipe.batch_size)))
    vit = ViTConfig(
        image_size=height, patch_size=options.patch_size, width=options.width, depth=options.depth,
        heads=options.heads, n_register=options.registers, drop_path=options.drop_path,
        layer_scale=options.layer_scale, n_classes=len(images.classes or ()), pool=options.pool,
    )  # fmt: skip
    return TrainingSetup(images, held_out, preprocessing, vit, recipe, Augmentation(options.flip, options.shift))


def run_training(
    setup: TrainingSetup, data: str, loading: LoadOptions, run_options: RunOptions, resume: bool, progress: Progress
) -> tuple[ViT, float]:
    """Train, and save the model where `out` is given; return the model and the seconds of training."""
    recipe, images = setup.recipe, setup.images
    with progress.bar(recipe.steps, "train", "step", recipe.batch_size) as bar:
        model, seconds = train_vit(
            images,
            setup.vit,
            recipe,
            setup.augmentation,
            run_options.out,
            resume,
            run_options.device,
            on_step=lambda step, loss: bar.move(step, loss=loss),
            extra_config={"data": data, "images": len(images), "loading": to_plain(loading)},
        )
    if run_options.out is not None and is_main_process():
        save_vit(model, setup.preprocessing, run_options.out / "model")
    return model, seconds


def measure_training(setup: TrainingSetup, model: ViT, seconds: float, progress: Progress) -> TrainResult:
    """Measure the accuracy of a trained ViT."""
    recipe = setup.recipe
    batches = Tracked(setup.held_out, "accuracy", progress)
    measured = top1(load_model(model), batches, seed=recipe.seed)
    seen = recipe.steps * recipe.batch_size
    return TrainResult(
        top1=Estimate(measured.top1, *measured.ci, measured.n),
        epochs=seen / len(setup.images),
        steps=recipe.steps,
        train_images=len(setup.images),
        train_seconds=round(seconds, 1),
        images_per_second=seen / seconds,
        drop_path=setup.vit.drop_path,
        parameters=count_parameters(model),
        model=model,
    )


def to_config(setup: TrainingSetup) -> dict[str, Any]:
    """Return what `config.json` has under `vit`, `recipe` and `augmentation`; a resumed run compares it."""
    vit = setup.vit.to_config()
    vit_keys = ("depth", "width", "heads", "patch_size", "n_register", "drop_path", "layer_scale")
    recipe = asdict(setup.recipe)
    recipe_keys = ("steps", "batch_size", "lr", "muon_lr", "warmup", "weight_decay", "seed")
    return {
        "vit": {name: vit[name] for name in vit_keys},
        "recipe": {name: recipe[name] for name in recipe_keys},
        "augmentation": asdict(setup.augmentation),
    }


def training_preprocessing(source: str, size: int) -> Preprocessing:
    """Return the preprocessing for training on data: scenes as they are, photographs resized.

    Parameters
    ----------
    source
        Data without its split; `scenes` is special.
    size
        Side of the images in pixels.
    """
    if source == "scenes":
        return Preprocessing((size, size), None, mean=scenes.MEAN, std=scenes.STD, source="the scenes' mean and spread")
    return Preprocessing((size, size), (size, size), source="resized to the ViT's own size, ImageNet's mean and spread")
