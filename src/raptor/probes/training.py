"""Heads trained on frozen features: one a learning rate, all on the same batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from raptor.errors import TrainingError
from raptor.probes.classify import PooledHead, read_own_head
from raptor.probes.features import Features, Source
from raptor.probes.task import Task
from raptor.training.loop import fit
from raptor.training.recipe import Recipe
from raptor.training.workers import Launch

OWN_IMAGES = 10  # images a feature from which the model's own head is read
OWN_EXACT = 0.999  # share of its logits' variance from which on it counts as read
OWN_USEFUL = 0.5  # and from which on it is worth starting from


def train_heads(
    task: Task,
    source: Source,
    recipe: Recipe,
    rates: Sequence[float],
    start: nn.Module,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> list[nn.Module]:
    """Train a copy of a head with each learning rate; return them in the order of the rates."""
    heads = nn.ModuleList(copy.deepcopy(start) for _ in rates)
    groups = [
        {"params": list(head.parameters()), "peak": rate, "weight_decay": recipe.weight_decay}
        for head, rate in zip(heads, rates, strict=True)
    ]

    def objective(features: Features, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        features = task.shown(features)
        truth = task.truth(features)
        losses = torch.stack([task.loss(head(features), truth) for head in heads])
        # A rate that diverges ends its own head and not the others.
        finite = losses[losses.isfinite()]
        if not len(finite):
            raise TrainingError(f"the heads to {task.name} diverge with every learning rate; give lower ones")
        return finite.sum(), {"least": finite.detach().min()}

    adamw = torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=True)
    # Heads share nothing: each is clipped as if it were trained alone.
    fit(
        heads,
        objective,
        lambda first, size, part: source.shuffled(first, size, recipe.seed, part),
        recipe,
        apart=list(heads),
        optimizers=[adamw],
        watch=watch,
        launch=Launch(together=False),  # heads are small: every process trains all of them, and has the same
    )
    return list(heads)


def own_start(task: Task, source: Source) -> tuple[PooledHead | None, float | None]:
    """Return a head that starts as the model's own, where it has one of as many classes, and how well it is read.

    The latter is the share of the own head's logits that a linear map explains; where it is small there is no start.
    """
    first = next(iter(source))
    start = task.head(first)
    if not isinstance(start, PooledHead) or not task.answers_as(first.own):
        return None, None
    parts = islice(source, -(-OWN_IMAGES * start.linear.in_features // len(first)))
    pairs = [(part.pooled.cpu(), part.own.cpu()) for part in parts if part.own is not None]
    inputs, logits = (torch.cat(values) for values in zip(*pairs, strict=True))
    explained = read_own_head(inputs, logits, start)
    return (start if explained >= OWN_USEFUL else None), explained
