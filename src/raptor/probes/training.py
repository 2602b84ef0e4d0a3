"""Training of heads on frozen features: one head per learning rate, all on the same batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from raptor.errors import TrainingError
from raptor.probes.classify import PooledHead, read_own_head
from raptor.probes.features import Features, Source
from raptor.probes.options import ProbeOptions
from raptor.probes.task import Task
from raptor.training.accelerate import LaunchOptions
from raptor.training.config import TrainConfig
from raptor.training.loop import fit

WARMUP = 100  # steps, fewer in short trainings
STEPS_PER_EPOCH = 20  # at least: batches are smaller where there are few images
OWN_IMAGES = 10  # images per feature for the regression on the pretrained head
OWN_EXACT = 0.999  # explained variance from which on the pretrained head counts as linear
OWN_USEFUL = 0.5  # explained variance from which on a head starts from the pretrained one


def lrs_of(options: ProbeOptions, task: Task) -> Sequence[float]:
    """Return the peak learning rates of a task's heads."""
    return task.training.lrs if options.lrs is None else options.lrs


def train_config(options: ProbeOptions, task: Task, n: int, seed: int) -> TrainConfig:
    """Return the optimisation of a task's heads.

    Parameters
    ----------
    options
        Learning rates, epochs and batch size.
    task
        The task, whose own values are the defaults.
    n
        Number of training images.
    seed
        Seed of the order of images.
    """
    batch_size = options.batch_size or max(1, min(task.training.batch_size, n // STEPS_PER_EPOCH))
    steps = max(1, round((options.epochs or task.training.epochs) * n / batch_size))
    return TrainConfig(
        steps,
        batch_size,
        max(lrs_of(options, task)),
        warmup=min(WARMUP, steps // 10),
        weight_decay=task.training.weight_decay,
        betas=(0.9, 0.999),
        seed=seed,
    )


def train_heads(
    task: Task,
    source: Source,
    recipe: TrainConfig,
    lrs: Sequence[float],
    start: nn.Module,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> list[nn.Module]:
    """Train a copy of a head with each learning rate.

    Parameters
    ----------
    task
        The task.
    source
        Features of the training images.
    recipe
        The optimisation, without the learning rates.
    lrs
        Peak learning rates.
    start
        The initial head.
    watch
        Called with each line of the training log.

    Returns
    -------
    list
        The trained heads, in the order of `lrs`.
    """
    heads = nn.ModuleList(copy.deepcopy(start) for _ in lrs)
    groups = [
        {"params": list(head.parameters()), "peak": lr, "weight_decay": recipe.weight_decay}
        for head, lr in zip(heads, lrs, strict=True)
    ]

    def objective(features: Features, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        features = task.shown(features)
        truth = task.truth(features)
        losses = torch.stack([task.loss(head(features), truth) for head in heads])
        # A learning rate that diverges must not stop the other heads.
        finite = losses[losses.isfinite()]
        if not len(finite):
            raise TrainingError(f"all heads of the task {task.name!r} diverged: use lower learning rates")
        return finite.sum(), {"least": finite.detach().min()}

    adamw = torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=True)
    # Heads share no parameters; each is clipped as if it were trained alone.
    fit(
        heads,
        objective,
        lambda first, size, part: source.shuffled(first, size, recipe.seed, part),
        recipe,
        clip_separately=list(heads),
        optimizers=[adamw],
        watch=watch,
        launch=LaunchOptions(together=False),  # heads are small: every process trains all of them, with the same result
    )
    return list(heads)


def own_start(task: Task, source: Source) -> tuple[PooledHead | None, float | None]:
    """Return a head that is initialised from the model's pretrained head, and the explained variance of its logits.

    The head is None if the model has no head with as many classes, or if a linear layer explains less than half of the
    variance. The variance is None if there is no such head.
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
