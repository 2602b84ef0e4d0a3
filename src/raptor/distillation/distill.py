"""Distillation: a surrogate learns its teacher's trajectory, first blockwise, then end-to-end.

The teacher runs on every batch without gradients; its states are stored only where a cache is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raptor.core.batches import Batch, LoadedImageSet
from raptor.core.deprecation import renamed_keywords
from raptor.core.phases import Phases, PhasesLike, as_phases
from raptor.distillation.activation_cache import StatesCache
from raptor.distillation.adapted import adapted
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.losses import States, StateVariance, TrajectoryLoss, measure_state_variance, variance_at
from raptor.distillation.options import DistillOptions
from raptor.distillation.stage_losses import blockwise_loss, end_to_end_loss
from raptor.distillation.targets import Targets
from raptor.distillation.validation import Validation, split_off
from raptor.distillation.windows import Window
from raptor.errors import OptionError, UnsupportedModelError
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint
from raptor.phases.function.training_free import fit_surrogate
from raptor.runtime.compiled import compile_blocks
from raptor.runtime.files import explained
from raptor.runtime.notes import note
from raptor.runtime.progress import Progress, ProgressLike
from raptor.runtime.random_state import preserve_random_state
from raptor.training.accelerate import LaunchOptions, Part
from raptor.training.config import TrainConfig
from raptor.training.loop import Objective, TrainingInterrupted, fit
from raptor.training.schedules import annealed

Watch = Callable[[str, dict[str, float]], None]

STAGES = ("stage1", "stage2")  # directories of the blockwise and of the end-to-end stage
VARIANCE_IMAGES = 128  # images over which the variance of the teacher's states is measured


@renamed_keywords(about="extra_config", distillation="options")
def distill(
    teacher: Teacher,
    images: LoadedImageSet,
    phases: PhasesLike,
    options: DistillOptions | Distillation | None = None,
    out: Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
    extra_config: dict[str, Any] | None = None,
    launch: LaunchOptions | None = None,
    start: Surrogate | None = None,
    cache: StatesCache | None = None,
    progress: ProgressLike = True,
) -> Surrogate:
    """Train a surrogate of a teacher.

    Some of the images are split off for validation. If the surrogate is worse on them after training than before, its
    weights before training are returned, and a note says so.

    Ctrl-C stops the training after the current step: the surrogate is returned as far as it got, and
    `record["unfinished"]` says where it stopped. With `out`, `resume=True` continues it.

    Parameters
    ----------
    teacher
        Runs on every batch, without gradients.
    images
        Images to train on; labels are not used.
    phases
        One tied block per phase: `Phases`, `"7-3-2"`, or what `find_phases` returned.
    options
        Recipe, steps, learning rates, kind of blocks, precision and so on. A `Distillation` is deprecated: use
        `train_surrogate` for hyper-parameters that `DistillOptions` does not have.
    out, resume, extra_config
        As in `fit`; each stage has its own directory in `out`.
    watch
        Called with the directory name of the stage (`stage1`, `stage2`) and each line of its log.
    launch
        Deprecated: use the fields of `options`.
    start
        Surrogate with these phases to continue from, trained in place; by default a new one.
    cache
        States of the images, from `open_states`; by default the teacher runs on every batch.
    progress
        Whether to show steps, loss and the time that is left: a bar in a terminal or a notebook, lines in a log. Or a
        function, called with a `ProgressState` after every step.

    Returns
    -------
    Surrogate
        Its `record` says how it was trained, and how many seconds that took.
    """
    if isinstance(options, Distillation):
        _deprecated("distill(..., Distillation(...))", "DistillOptions(...), or train_surrogate(...)")
    if launch is not None:
        _deprecated("distill(launch=...)", "DistillOptions(precision=..., gradient_accumulation_steps=..., ...)")
    chosen = options or DistillOptions()
    if isinstance(chosen, DistillOptions):
        recipe, launch = chosen.distillation(), launch or chosen.launch()
    else:
        recipe = chosen
    return train_surrogate(
        teacher, images, phases, recipe, out, resume, watch, extra_config, launch, start, cache, progress
    )


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated: use {new}", FutureWarning, stacklevel=4)


def train_surrogate(
    teacher: Teacher,
    images: LoadedImageSet,
    phases: PhasesLike,
    recipe: Distillation,
    out: Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
    extra_config: dict[str, Any] | None = None,
    launch: LaunchOptions | None = None,
    start: Surrogate | None = None,
    cache: StatesCache | None = None,
    progress: ProgressLike = False,
) -> Surrogate:
    """Train a surrogate with all hyper-parameters given; `distill` is the simpler way.

    Parameters
    ----------
    recipe
        Hyper-parameters of both stages.
    launch
        Precision, accumulation, checkpointing and trackers.
    teacher, images, phases, out, resume, watch, extra_config, start, cache, progress
        As in `distill`.
    """
    phases, launch = as_phases(phases), launch or LaunchOptions()
    if recipe.head_weight and teacher.head is None:
        raise OptionError("a loss on classes needs a model with a classifier; this one has none (leave it out)")
    variance, first = None, next(images.shuffled(0, VARIANCE_IMAGES, recipe.blockwise.seed)).pixels.to(teacher.device)
    recipe = adapted(recipe, teacher, first, len(images), cache is not None)
    surrogate = start or _start(teacher, images, phases, recipe)
    surrogate.raptor.gradient_checkpointing = launch.gradient_checkpointing
    compiled = compile_blocks([*surrogate.raptor.blocks, *teacher.parts.blocks]) if launch.compile else nullcontext()
    if recipe.normalise:
        variance = {
            name: values.to(teacher.device) for name, values in measure_state_variance(teacher, first.split(16)).items()
        }
    # What a resumed run must share with the one that stopped, besides its recipe.
    config = {
        "phases": str(phases),
        "distillation": recipe.to_config(),
        "teacher": fingerprint(teacher.module),
        "image_size": list(teacher.image_size),
        "launch": launch.to_config(),
        "cached": cache is not None,
        **(extra_config or {}),
    }
    source, held_out = split_off(images.unsharded() if cache is None else cache, recipe)
    assert recipe.crop is not None
    assert recipe.window is not None
    assert recipe.window_keeps is not None
    assert recipe.per_token is not None
    targets = Targets(teacher, recipe.crop, Window(teacher.layout, recipe.window, recipe.window_keeps))
    loss = TrajectoryLoss(recipe.end_to_end_weights, recipe.per_token)
    validation = Validation(
        surrogate, recipe, held_out, source.sample(len(held_out)), targets.whole, loss, variance
    )  # fmt: skip
    seconds, unfinished, before = 0.0, None, 0
    steps = recipe.blockwise.steps + recipe.end_to_end.steps
    with compiled, Progress.of(progress).bar(steps, f"distill {phases}", "step", recipe.blockwise.batch_size) as bar:
        for name, objective, training, blockwise in _stages(surrogate, recipe, targets, variance):

            def batches(first: int, size: int, part: Part, seed: int = training.seed) -> Iterator[Batch | States]:
                return source.shuffled(first, size, seed, part)

            def on_step(step: int, loss: float, name: str = name, before: int = before) -> None:
                bar.move(before + step, f"distill {phases}, {name}", loss)

            folder = None if out is None else out / name
            if folder is not None:
                with explained(folder):
                    folder.mkdir(parents=True, exist_ok=True)
                validation.begin(folder, resume)
            if training.steps:
                try:
                    seconds += fit(
                        surrogate.raptor, objective, batches, training, folder, resume, {"stage": name, **config},
                        watch=None if watch is None else partial(watch, name), on_step=on_step,
                        clip_separately=tuple(surrogate.raptor.blocks) if blockwise else (), launch=launch,
                        validate=partial(validation.record, folder, training.batch_size),
                    )  # fmt: skip
                except TrainingInterrupted as stop:
                    unfinished = {"stage": name, "step": stop.step, "steps": training.steps}
                    break
            before += training.steps
    surrogate.record = {
        "phases": str(phases),
        "seconds": round(seconds, 1),
        **recipe.to_config(),
        **({} if launch.precision == "no" else {"precision": launch.precision}),
        **(extra_config or {}),
    }
    if unfinished is not None:
        surrogate.record["unfinished"] = unfinished
        note(f"interrupted at step {unfinished['step']} of {unfinished['stage']}: the surrogate is unfinished")
    else:
        surrogate.record["validation"] = validation.keep_better()
    return surrogate.eval()


def _start(teacher: Teacher, images: LoadedImageSet, phases: Phases, recipe: Distillation) -> Surrogate:
    """Return the surrogate before training."""
    with preserve_random_state():
        torch.manual_seed(recipe.blockwise.seed)
        if recipe.fit_images:
            training, _ = split_off(images.unsharded(), recipe)
            try:
                return fit_surrogate(teacher, training.sample(recipe.fit_images), phases, progress=False)
            except UnsupportedModelError:
                pass  # blocks without a linear map to fit start as copies
        return build_surrogate(teacher, phases, recipe.kind, **recipe.block)


def _stages(
    surrogate: Surrogate, chosen: Distillation, targets: Targets, variance: StateVariance | None
) -> list[tuple[str, Objective, TrainConfig, bool]]:
    """Return both stages: directory, objective, optimisation, and whether it is the blockwise stage."""
    raptor, head = surrogate.raptor, targets.teacher.head
    loss_of = partial(TrajectoryLoss, per_token=bool(chosen.per_token))
    last = raptor.phases.block_of(raptor.phases.depth)
    losses = [loss_of(chosen.last_weights if block == last else None) for block in range(raptor.phases.k)]
    end_to_end = loss_of(chosen.end_to_end_weights)

    def stage_1(batch: Batch | States, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        forcing = annealed(step, chosen.blockwise.steps, chosen.forcing, chosen.forcing_share)
        seen = targets.augmented(batch)
        of_tokens = variance_at(variance, seen.tokens)
        return blockwise_loss(raptor, seen.states, seen.layout, losses, forcing, of_tokens), {}

    def stage_2(batch: Batch | States, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        seen = targets.augmented(batch, all_patches=True)
        of_tokens = variance_at(variance, seen.tokens)
        return end_to_end_loss(raptor, seen.states, seen.layout, end_to_end, of_tokens, head, chosen.head_weight), {}

    return [(STAGES[0], stage_1, chosen.blockwise, True), (STAGES[1], stage_2, chosen.end_to_end, False)]
