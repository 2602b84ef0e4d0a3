"""Null teachers: what the same surrogate reaches on models that have nothing to find.

A high R2 alone is weak evidence: a few blocks fit many functions. So the same recipe, phases and budget are trained on
copies of the teacher whose blocks are random, untrained or in a random order. The embedding is the teacher's own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from raptor.core.batches import ImageSet, LoadedImageSet
from raptor.core.estimate import LayerEstimates
from raptor.errors import DataError, OptionError
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.teacher import Parts, Teacher
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

if TYPE_CHECKING:
    from raptor.distillation.hyperparameters import Distillation
    from raptor.training.accelerate import LaunchOptions

NULLS = ("random", "untrained", "shuffled")
TEACHER = "teacher"  # the teacher itself, distilled for as many steps
INITIAL_STD = 0.02  # of the weights of a ViT at the start of its training


@dataclass(frozen=True)
class NullFidelity:
    """How close a surrogate of a null teacher is to it, over all tokens at the layers 1..L.

    Parameters
    ----------
    skill, update_r2, r2
        The measures of `raptor fidelity` with these names.
    n
        Number of held-out images.
    steps
        Optimiser steps of both stages.
    """

    skill: LayerEstimates
    update_r2: LayerEstimates
    r2: LayerEstimates
    n: int
    steps: list[int]


def null_teacher(teacher: Teacher, kind: str, seed: int = 0) -> Teacher:
    """Return a copy of a teacher whose blocks are replaced; the embedding, norm and classifier are the same.

    Parameters
    ----------
    teacher
        The model to copy; it is not changed.
    kind
        `random`: every weight matrix of every block is Gaussian noise with the Frobenius norm of the original, and
        every bias and other vector is Gaussian noise with its original norm. `untrained`: weight matrices are drawn
        from a truncated normal with standard deviation 0.02, biases are 0, and the weights of norms and LayerScale are
        1: blocks then act as those of a ViT without LayerScale (the usual 1e-5 would make them the identity).
        `shuffled`: the teacher's own blocks in a random order, never the original one.
    seed
        Seed of the noise, the weights or the order.
    """
    if kind not in NULLS:
        raise OptionError(f"unknown null teacher {kind!r}; use {', '.join(NULLS)}")
    generator = torch.Generator().manual_seed(seed)
    name = f"{kind} null of {teacher.name}"
    twin = copy.deepcopy(teacher)
    if kind == "shuffled":
        adapt = _reordered(teacher.adapt, random_order(teacher.depth, generator))
        return Teacher(twin.module, adapt, teacher.preprocessing, name)
    draw = _noise if kind == "random" else _initial
    with torch.no_grad():
        for where, parameter in twin.parts.blocks.named_parameters():
            parameter.copy_(draw(where, parameter.detach().cpu(), generator))
    # Adapted again: what an adapter binds for its blocks, such as relative positions, comes from the new weights.
    return Teacher(twin.module, teacher.adapt, teacher.preprocessing, name)


def random_order(depth: int, generator: torch.Generator) -> list[int]:
    """Return a random order of the layers 0..depth-1 that is not the original one."""
    if depth < 2:
        raise OptionError("a model of one layer has no other order of its layers")
    while (order := torch.randperm(depth, generator=generator).tolist()) == list(range(depth)):
        pass
    return order


def _reordered(adapt: Callable[[nn.Module], Parts], order: list[int]) -> Callable[[nn.Module], Parts]:
    """Return an adapter that gives the blocks in another order, each called as at its original layer."""

    def adapted(module: nn.Module) -> Parts:
        parts = adapt(module)

        def call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
            return parts.call(block, tokens, order[layer])

        return replace(parts, blocks=nn.ModuleList([parts.blocks[layer] for layer in order]), call=call)

    return adapted


def _noise(name: str, values: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    return noise * (values.double().norm() / noise.norm().clamp(min=torch.finfo(torch.float64).tiny))


def _initial(name: str, values: Tensor, generator: torch.Generator) -> Tensor:
    if sum(size > 1 for size in values.shape) >= 2:
        fresh = torch.empty(values.shape)
        return nn.init.trunc_normal_(fresh, std=INITIAL_STD, generator=generator)
    last = name.rpartition(".")[2]
    return torch.zeros_like(values) if "bias" in last or last == "beta" else torch.ones_like(values)


def recorded_recipe(record: dict[str, Any]) -> Distillation:
    """Return the recipe that a surrogate was trained with.

    Parameters
    ----------
    record
        `record` of a surrogate that `distill` returned, or the provenance of a saved one.
    """
    from raptor.distillation.hyperparameters import Distillation

    return Distillation.from_config(_training(record))


def recorded_launch(record: dict[str, Any]) -> LaunchOptions:
    """Return the precision that a surrogate was trained in, as `train_surrogate` takes it.

    Parameters
    ----------
    record
        As in `recorded_recipe`.
    """
    from raptor.training.accelerate import LaunchOptions

    return LaunchOptions(precision=_training(record).get("precision", "no"))


def _training(record: dict[str, Any]) -> dict[str, Any]:
    training = record.get("training", record)
    if not isinstance(training, dict) or "apart" not in training:
        raise OptionError("the surrogate has no record of its training, which null teachers need")
    return training


def measure_nulls(
    surrogate: Surrogate,
    images: ImageSet,
    train_images: LoadedImageSet,
    steps: int | None = None,
    seed: int = 0,
    progress: ProgressLike = True,
) -> dict[str, NullFidelity]:
    """Train the same surrogate on null teachers and measure its fidelity to them.

    Parameters
    ----------
    surrogate
        A surrogate with its teacher; its record has the recipe.
    images
        Held-out images to measure on.
    train_images
        Images to train on; none of them may be in `images`.
    steps
        Steps per stage in place of the recorded ones. The teacher itself is then distilled for as many.
    seed
        Seed of the null teachers and of the bootstrap over images.
    progress
        As in `measure_dynamics`.
    """
    from raptor.distillation.distill import train_surrogate

    check_disjoint(images, train_images)
    recipe, launch, phases = recorded_recipe(surrogate.record), recorded_launch(surrogate.record), surrogate.phases
    recipe = recipe if steps is None else recipe.with_steps(steps)
    kinds = [kind for kind in NULLS if kind != "shuffled" or surrogate.depth > 1]
    found = {}
    for kind in kinds if steps is None else [TEACHER, *kinds]:
        null = surrogate.teacher if kind == TEACHER else null_teacher(surrogate.teacher, kind, seed)
        student = train_surrogate(null, train_images, phases, recipe, launch=launch, progress=progress)
        if "unfinished" in student.record:
            raise KeyboardInterrupt
        measured = trajectory_fidelity(null, student, tracked(images, f"fidelity, {kind}", progress), phases, seed)
        found[kind] = NullFidelity(
            **{name: _all_tokens(measured[name]) for name in ("skill", "update_r2", "r2")},
            n=measured["r2"].n,
            steps=[recipe.blockwise.steps, recipe.end_to_end.steps],
        )
    return found


def check_disjoint(images: ImageSet, train_images: LoadedImageSet) -> None:
    """Raise a DataError if an image to measure on is also trained on."""
    if not isinstance(images, LoadedImageSet):
        return
    if shared := images.image_keys() & train_images.image_keys():
        raise DataError(
            f"{len(shared)} images would be both trained and measured on, such as {min(shared)}; measure on a held-out "
            "split"
        )


def _all_tokens(measured: LayerEstimates) -> LayerEstimates:
    mean, low, high = ({"all": one["all"]} for one in (measured.mean, measured.low, measured.high))
    return LayerEstimates(mean, low, high, measured.n, measured.seed)
