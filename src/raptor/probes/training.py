"""Heads trained on frozen features: one a learning rate, all on the same batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from raptor.probes.classify import PooledHead, read_own_head
from raptor.probes.features import Features, Source
from raptor.probes.task import Task
from raptor.training.loop import fit
from raptor.training.recipe import Recipe

OWN_IMAGES = 10  # images a feature from which the model's own head is read
OWN_EXACT = 0.999  # share of its logits' variance from which on it counts as read


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
        return losses.sum(), {"least": losses.detach().min()}

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
    )
    return list(heads)


def start_of(task: Task, source: Source, seed: int) -> tuple[nn.Module, float | None]:
    """Return an untrained head: the model's own where it has one of as many classes, else one close to zero.

    Beside it the share of the own head's logits that the linear start explains; None where there is no own head.
    """
    first = next(iter(source))
    torch.manual_seed(seed)
    start = task.head(first)
    if not isinstance(start, PooledHead) or not task.answers_as(first.own):
        return start, None
    some = islice(source, -(-OWN_IMAGES * start.linear.in_features // len(first)))
    return start, read_own_head(list(some), start)
