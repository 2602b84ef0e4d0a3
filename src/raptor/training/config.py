"""Hyper-parameters of a training, and its optimisers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from raptor.errors import OptionError
from raptor.training.muon import Muon


@dataclass(frozen=True)
class TrainConfig:
    """Hyper-parameters: AdamW with warm-up, a cosine schedule and clipping; with `muon_lr` Muon for matrices of blocks.

    The defaults suit small ViTs trained from scratch (DeiT's, with a lower beta2 for short runs).

    Parameters
    ----------
    steps, batch_size
        Optimiser steps, and images per step.
    lr, muon_lr
        Peak learning rates of AdamW and of Muon; None trains everything with AdamW.
    warmup, floor
        Steps of linear warm-up; the share of the peak rate that the cosine ends at.
    weight_decay, decay_all
        Decoupled weight decay of matrices; with `decay_all` of all parameters.
    betas
        Momentum coefficients of AdamW.
    clip
        Largest norm of the gradient; None for no clipping.
    seed
        Seed of the initial weights, the order of images and everything else that is drawn.
    """

    steps: int
    batch_size: int = 64
    lr: float = 1e-3
    muon_lr: float | None = None
    warmup: int = 200
    floor: float = 0.0
    weight_decay: float = 0.05
    decay_all: bool = False
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float | None = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_rates(self.lr, self.muon_lr)


def check_rates(lr: float | None, muon_lr: float | None) -> None:
    """Raise where a learning rate is not a positive number."""
    if not all(rate is None or (math.isfinite(rate) and rate > 0) for rate in (lr, muon_lr)):
        raise OptionError(f"learning rates must be above 0, not lr = {lr} and muon_lr = {muon_lr}")


def build_optimizers(model: nn.Module, recipe: TrainConfig) -> list[Optimizer]:
    """Return the optimisers of a model. Matrices have weight decay; biases, norms, tokens and positions do not.

    Each group has a `peak` learning rate, which the schedule scales.
    """
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    matrices = {name: p for name, p in trained.items() if name.endswith("weight") and p.ndim >= 2}
    # Without the map from a layer's index to its scales, which has one input.
    inner = {n: p for n, p in matrices.items() if "blocks." in n and ".t_proj." not in n and p.ndim == 2}
    if recipe.muon_lr is None:
        inner = {}
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in matrices.items() if name not in inner], "weight_decay": recipe.weight_decay},
        {
            "params": [p for name, p in trained.items() if name not in matrices],
            "weight_decay": recipe.weight_decay if recipe.decay_all else 0.0,
        },
    ]
    adamw = torch.optim.AdamW(_peaked(groups, recipe.lr), lr=recipe.lr, betas=recipe.betas, fused=True)
    optimizers: list[Optimizer] = [adamw]
    if recipe.muon_lr is not None and inner:
        fused = [p for name, p in inner.items() if name.endswith("qkv.weight")]
        plain = [p for name, p in inner.items() if not name.endswith("qkv.weight")]
        groups = [{"params": fused, "pieces": 3}, {"params": plain}]
        optimizers.append(Muon(_peaked(groups, recipe.muon_lr), recipe.muon_lr, weight_decay=recipe.weight_decay))
    return optimizers


def _peaked(groups: list[dict[str, Any]], peak: float) -> list[dict[str, Any]]:
    return [{**group, "peak": peak} for group in groups if group["params"]]
