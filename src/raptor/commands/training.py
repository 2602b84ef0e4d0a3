"""What `raptor train` does."""

from __future__ import annotations

import math
from typing import Any

from raptor.accuracy import top1
from raptor.commands.resuming import check_fresh
from raptor.complexity import count_parameters
from raptor.data import HELD_OUT, load_images, parse_source, scene_layout, scenes, training_split
from raptor.data.three_sets import check_classes
from raptor.errors import OptionError
from raptor.models.store import save_vit
from raptor.models.teachers import load_teacher
from raptor.models.vit import ViTConfig
from raptor.options import Common
from raptor.preprocessing import Preprocessing
from raptor.processes import is_first_process
from raptor.progress import Bar, track
from raptor.run import Run, plain
from raptor.training.recipe import Recipe
from raptor.training.vit import Augmentation, train_vit


def train_model(
    data: str,
    eval_data: str | None,
    eval_images: int,
    epochs: float | None,
    common: Common,
    resume: bool,
    *,
    vit: dict[str, Any],
    recipe: dict[str, Any],
    augmentation: dict[str, Any],
    loading: dict[str, Any],
) -> dict[str, Any] | None:
    """Train a ViT on the train split, report its accuracy on the held-out one, keep it in the run directory.

    Of several processes the first alone measures, keeps and returns.
    """
    height, width = common.size or (scene_layout.SIZE, scene_layout.SIZE)
    if height != width:
        raise OptionError(f"our ViT takes square images, not {height}x{width}")
    source, split = parse_source(data)
    preprocessing = training_preprocessing(source, height)
    endless = source == "scenes" and common.images is None and epochs is None
    n = recipe["steps"] * recipe["batch_size"] if endless else common.images
    pictures = load_images(source, preprocessing, training_split(split, eval_data), n, seed=common.seed, **loading)
    held_out = load_images(
        eval_data or source, preprocessing, None if eval_data else HELD_OUT, eval_images, batch_size=250, **loading
    )
    check_classes(pictures, held_out, "report", whole=False)
    if epochs is not None:
        if not math.isfinite(epochs):
            raise OptionError(f"--epochs is a number of passes over the images, not {epochs}")
        recipe = {**recipe, "steps": max(1, round(epochs * len(pictures) / recipe["batch_size"]))}
    config = {"data": data, "images": len(pictures), "device": common.device, "vit": vit, "recipe": recipe,
              "augmentation": augmentation, "image_size": height, "eval_data": eval_data, "eval_images": eval_images,
              **loading}  # fmt: skip
    first = is_first_process()
    with Run("train", config, common.out, common.seed) as run:
        check_fresh(run.out, resume, {**plain(config), "seed": common.seed})
        run.begin()
        seen = recipe["steps"] * recipe["batch_size"]
        with Bar(seen, "training", common.progress) as bar:
            model, seconds = train_vit(
                pictures,
                ViTConfig(image_size=height, n_classes=len(pictures.classes or ()), **vit),
                Recipe(**recipe),
                Augmentation(**augmentation),
                common.out,
                resume,
                common.device,
                watch=lambda line: bar.move(int(line["step"]) * recipe["batch_size"], f"loss {line['loss']:.3f}"),
                about={"data": data, "images": len(pictures), "loading": loading},
            )
        if not first:
            return None
        if run.out is not None:
            save_vit(model, preprocessing, run.out / "model")
        batches = track(held_out, len(held_out), "accuracy", common.progress)
        measured = top1(load_teacher(model), batches, seed=common.seed)
        body = {
            "top1": measured.top1,
            "top1_ci": list(measured.ci),
            "epochs": seen / len(pictures),
            "steps": recipe["steps"],
            "train_images": len(pictures),
            "train_seconds": round(seconds, 1),
            "images_per_second": seen / seconds,
            "drop_path": vit["drop_path"],
            "parameters": count_parameters(model),
            "damaged": [*pictures.damaged, *held_out.damaged],
        }
        return run.finish(body, images=measured.n, layers=model.depth)


def training_preprocessing(source: str, size: int) -> Preprocessing:
    """Return what a ViT trained on this data wants: scenes as they are, photographs resized and cropped."""
    if source == "scenes":
        return Preprocessing((size, size), None, mean=scenes.MEAN, std=scenes.STD, source="the scenes' mean and spread")
    return Preprocessing((size, size), (size, size), source="resized to the ViT's own size, ImageNet's mean and spread")
