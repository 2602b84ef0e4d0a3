"""Settings of a recipe that depend on the teacher and the images: error, crops, window of patches and start.

The rules, with what they rest on, are in docs/surrogates.md. A setting that the user gave stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.windows import Window, treats_tokens_as_a_set
from raptor.inspection.outliers import find_outliers
from raptor.models.teachers.teacher import Teacher
from raptor.runtime.notes import note

MANY_ROWS = 14  # rows or columns of patches from which training on a window pays
WINDOW = 0.5  # its side: a quarter of the patches
OFTEN = 0.5  # share of images in which a patch is an outlier token, above which every window sees it
CROP = 0.35  # smallest share of an image in a random crop
REPEATED = 1.5  # times that a stage sees each image, from which it sees random crops
OUTLIER_BATCH = 16
FEW_STEPS = 100  # of a stage, up to which blocks are fitted before training
FIT_SHARE = 15  # images that training sees, per image of the fit: it then takes about a third of the training's time
FIT_IMAGES = (32, 256)  # fewest and most images of the fit


def adapted(recipe: Distillation, teacher: Teacher, pixels: Tensor, n_images: int, cached: bool) -> Distillation:
    """Return a recipe without open settings.

    Parameters
    ----------
    recipe
        Settings that are None are chosen here.
    teacher
        The model to reproduce.
    pixels
        Some training images.
    n_images
        Number of training images.
    cached
        Whether training reads cached states, which are those of whole images.
    """
    per_token, crop, keeps = recipe.per_token, recipe.crop, recipe.window_keeps
    if per_token is None or keeps is None:
        outliers = find_outliers(teacher, pixels.split(OUTLIER_BATCH))
        often = [outliers.massive and share > OFTEN for row in outliers.where for share in row]
        per_token = outliers.massive if per_token is None else per_token
        keeps = tuple(number for number, out in enumerate(often) if out) if keeps is None else keeps
    if crop is None:
        seen = max(stage.steps * stage.batch_size for stage in (recipe.blockwise, recipe.end_to_end))
        crop = CROP if seen > REPEATED * n_images else 1.0
    recipe = windowed(replace(recipe, per_token=per_token, crop=crop, window_keeps=keeps), teacher, pixels)
    if cached:
        recipe = replace(recipe, crop=1.0, window=1.0, window_keeps=())
    return replace(recipe, fit_images=_fit_images(recipe))


def windowed(recipe: Distillation, teacher: Teacher, pixels: Tensor) -> Distillation:
    """Return a recipe whose window of patches is not open, and is the whole image where blocks need that.

    Parameters
    ----------
    recipe, teacher
        As in `adapted`.
    pixels
        Some images.
    """
    window = recipe.window
    if window is None:
        large = min(teacher.layout.grid) >= MANY_ROWS
        window = WINDOW if large and _runs_on_windows(teacher, pixels) else 1.0
    elif Window(teacher.layout, window).grid != teacher.layout.grid and not _runs_on_windows(teacher, pixels):
        note("the blocks of this model depend on positions in the grid: they are trained on all patches")
        window = 1.0
    keeps = () if window == 1 else recipe.window_keeps
    return replace(recipe, window=window, window_keeps=keeps)


def _fit_images(recipe: Distillation) -> int:
    if recipe.fit_images is not None:
        return recipe.fit_images
    stages = recipe.blockwise, recipe.end_to_end
    fewest, most = FIT_IMAGES
    n = min(most, sum(stage.steps * stage.batch_size for stage in stages) // FIT_SHARE)
    if recipe.kind != "teacher" or recipe.block or recipe.window != 1:
        return 0  # other blocks cannot be fitted; steps on a window cost a fraction of what a fit on all patches does
    return n if n >= fewest and max(stage.steps for stage in stages) <= FEW_STEPS else 0


@torch.no_grad()
def _runs_on_windows(teacher: Teacher, pixels: Tensor) -> bool:
    return treats_tokens_as_a_set(teacher, teacher.embed(pixels[:1]))
