"""Options of `raptor train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from raptor.core.options import Option


@dataclass(frozen=True)
class TrainOptions:
    """The ViT that is trained, and how.

    Parameters
    ----------
    steps, epochs
        Optimiser steps; or passes over the images, in place of `steps`.
    depth, width, heads, patch_size, registers
        Number of layers, features per token, attention heads, side of a patch in pixels, number of register tokens.
    drop_path
        Stochastic depth: probability that an image skips a layer, the same for all layers.
    layer_scale
        Initial value of LayerScale; None for none.
    pool
        What the classifier reads: `cls+patch` (cls and the mean of the patches) or `cls`. With `cls`, the patches of
        the last layer receive no gradient.
    lr, muon_lr
        Peak learning rate of AdamW; with `muon_lr` Muon trains the matrices of blocks at that peak rate.
    warmup
        Steps of linear warm-up.
    weight_decay
        Weight decay of matrices.
    flip, shift
        Augmentation: whether images are mirrored at random, and by how many pixels they are moved at most.
    batch_size
        Images per step.
    seed
        Seed of the initial weights, the order of images and everything else that is drawn.
    """

    steps: Annotated[int, Option("Training steps.", min=1)] = 5000
    epochs: Annotated[float | None, Option("Passes over the images, in place of --steps.", min=0)] = None
    depth: Annotated[int, Option("Number of layers.", min=1)] = 12
    width: Annotated[int, Option("Features per token.", min=4)] = 128
    heads: Annotated[int, Option("Number of attention heads.", min=1)] = 4
    patch_size: Annotated[int, Option("Side of a patch in pixels.", min=1)] = 8
    registers: Annotated[int, Option("Number of register tokens.", min=0)] = 4
    drop_path: Annotated[float, Option("Stochastic depth: probability of skipping a layer.", min=0, max=0.95)] = 0.0
    layer_scale: Annotated[float | None, Option("Initial value of LayerScale. Default: no LayerScale.")] = None
    pool: Annotated[
        Literal["cls+patch", "cls"],
        Option("Input of the classifier: the cls token and the mean patch, or the cls token alone."),
    ] = "cls+patch"
    lr: Annotated[float, Option("Peak learning rate of AdamW.", min=0)] = 1e-3
    muon_lr: Annotated[
        float | None,
        Option("Peak learning rate of Muon, for the blocks' weight matrices. Default: AdamW trains them too.", min=0),
    ] = None
    warmup: Annotated[int, Option("Steps of linear warm-up.", min=0)] = 200
    weight_decay: Annotated[float, Option("Weight decay of the weight matrices.", min=0)] = 0.05
    flip: Annotated[bool, Option("Flip training images horizontally at random.", flags=("--flip/--no-flip",))] = True
    shift: Annotated[int, Option("Shift training images at random by up to this many pixels.", min=0)] = 0
    batch_size: int = 32
    seed: int = 0
