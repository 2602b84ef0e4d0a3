"""Distillation: a surrogate learns its teacher's trajectory, the blocks apart first, then joined.

The teacher runs live and without gradients; nothing is stored unless a cache is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.data.batch import Batch
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.files import explained
from raptor.flow import rollout
from raptor.models.raptor import Raptor
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint
from raptor.phases import Phases
from raptor.selection import FoundPhases
from raptor.tokens import TokenLayout
from raptor.training.loop import Objective, fit
from raptor.training.losses import Spread, TrajectoryLoss, states_spread
from raptor.training.recipe import Recipe
from raptor.training.recipes import Distillation, distillation_named
from raptor.training.schedules import annealed
from raptor.training.states_cache import StatesCache
from raptor.training.workers import Launch, Part

States = Float[Tensor, "batch layers tokens width"]

STAGES = ("stage1", "stage2")  # directories of the two, blocks apart and joined
SPREAD_IMAGES = 128  # that the variance of the teacher's states is taken from


def apart_loss(
    raptor: Raptor,
    truth: States,
    layout: TokenLayout,
    losses: list[TrajectoryLoss],
    forcing: float,
    spread: Spread | None = None,
) -> Tensor:
    """Return the loss of stage 1: the sum over blocks, each from the true input of its phase.

    Blocks share no weight, so that the gradient of each is what it would be if it were trained alone.

    Parameters
    ----------
    raptor
        The blocks.
    truth
        The teacher's states at the layers 0..L.
    layout, losses
        Token groups; one loss a phase.
    forcing
        Weight of one-step predictions from true inputs, in [0, 1]; the rest is on the rollout within the phase.
    spread
        Variance of the teacher's states at the layers 1..L to divide by.
    """
    total = truth.new_zeros(())
    for block, span, loss in zip(raptor.blocks, raptor.phases.ranges, losses, strict=True):
        wanted = truth[:, span[0] : span[-1] + 1]
        own = None if spread is None else {name: by[span[0] - 1 : span[-1]] for name, by in spread.items()}
        if forcing > 0 and not raptor.untied:
            # All layers of the phase in one call: samples of a batch may be at different layers.
            inputs = truth[:, span[0] - 1 : span[-1]]
            target = torch.tensor(span, dtype=truth.dtype, device=truth.device).repeat(len(truth))
            forced = raptor.call(block, inputs.flatten(0, 1), target).unflatten(0, inputs.shape[:2])
            total = total + forcing * loss(forced, wanted, layout, own).mean()
        if forcing < 1 or raptor.untied:
            rolled = _roll(raptor, truth[:, span[0] - 1], span)
            share = 1.0 if raptor.untied else 1 - forcing
            total = total + share * _mean(raptor, loss(rolled, wanted, layout, own), span)
    return total


def joined_loss(
    raptor: Raptor, truth: States, layout: TokenLayout, loss: TrajectoryLoss, spread: Spread | None = None
) -> Tensor:
    """Return the loss of stage 2: the blocks joined, rolled out from layer 0, over all layers."""
    rolled = _roll(raptor, truth[:, 0], range(1, raptor.phases.depth + 1))
    return _mean(raptor, loss(rolled, truth[:, 1:], layout, spread), range(1, raptor.phases.depth + 1))


def _mean(raptor: Raptor, by_layer: Float[Tensor, " layers"], layers: range) -> Tensor:
    """Return the mean over layers; an untied control has states of its own at the ends of phases alone."""
    if raptor.untied:
        by_layer = by_layer[[layers.index(end) for end in raptor.ends if end in layers]]
    return by_layer.mean()


def _roll(raptor: Raptor, tokens: Tensor, layers: range) -> list[Tensor]:
    """Return the surrogate's own states at `layers`, from true states at the layer before the first."""
    states = []
    for layer in layers:
        tokens = raptor.step(tokens, layer - 1)
        states.append(tokens)
    return states


def distill(
    teacher: Teacher,
    images: Images | SceneImages,
    phases: Phases | str | FoundPhases,
    distillation: Distillation | None = None,
    out: Path | None = None,
    resume: bool = False,
    watch: Callable[[str, dict[str, float]], None] | None = None,
    about: dict[str, Any] | None = None,
    launch: Launch | None = None,
    start: Surrogate | None = None,
    cache: StatesCache | None = None,
) -> Surrogate:
    """Train a surrogate of a teacher.

    Parameters
    ----------
    teacher
        Runs live on every batch.
    images
        To train on; labels are not used.
    phases
        One tied block a phase: `Phases`, `"7-3-2"`, or what `find_phases` found.
    distillation
        Both stages; by default our own recipe.
    out, resume, about, launch
        As in `fit`; each stage has a directory of its own in `out`.
    watch
        Called with the name of the stage and each line of its log.
    start
        A surrogate with these phases to go on from, trained in place; by default a new one.
    cache
        States of the images, from `open_states`; by default the teacher runs on every batch.

    Returns
    -------
    Surrogate
        With `record`: how it was trained, and the seconds that it took.
    """
    chosen = distillation or distillation_named("default")
    phases = phases_from(phases)
    torch.manual_seed(chosen.apart.seed)
    surrogate = start or build_surrogate(teacher, phases, chosen.kind, **chosen.block)
    launch = launch or Launch()
    surrogate.raptor.recompute = launch.recompute
    spread = None
    if chosen.normalise:
        first = next(images.shuffled(0, SPREAD_IMAGES, chosen.apart.seed)).pixels.to(teacher.device)
        spread = {name: values.to(teacher.device) for name, values in states_spread(teacher, first.split(16)).items()}
    # What a run that goes on must share with the one that stopped, beside its recipe.
    identity = {
        "teacher": fingerprint(teacher.module),
        "image_size": list(teacher.image_size),
        "launch": asdict(launch),
        "cached": cache is not None,
    }
    seconds = 0.0
    for name, objective, recipe, apart in _stages(surrogate, chosen, spread):

        def batches(first: int, size: int, part: Part, recipe: Recipe = recipe) -> Iterator[Batch | States]:
            return (cache or images).shuffled(first, size, recipe.seed, part)

        folder = None if out is None else out / name
        if folder is not None:
            with explained(folder):
                folder.mkdir(parents=True, exist_ok=True)
        everything = {"phases": str(phases), "stage": name, "distillation": asdict(chosen), **identity, **(about or {})}
        if recipe.steps:
            seconds += fit(
                surrogate.raptor, objective, batches, recipe, folder, resume, everything,
                watch=None if watch is None else partial(watch, name),
                apart=tuple(surrogate.raptor.blocks) if apart else (), launch=launch,
            )  # fmt: skip
    surrogate.record = {"phases": str(phases), "seconds": round(seconds, 1), **asdict(chosen), **(about or {})}
    return surrogate.eval()


def phases_from(phases: Phases | str | FoundPhases) -> Phases:
    """Return the phases of a text, or of what `find_phases` found."""
    if isinstance(phases, str):
        return Phases.parse(phases)
    return phases if isinstance(phases, Phases) else phases.segmentation.phases


def _stages(
    surrogate: Surrogate, chosen: Distillation, spread: Spread | None
) -> list[tuple[str, Objective, Recipe, bool]]:
    """Return both stages: name, objective, optimisation, and whether blocks are trained each on its own."""
    teacher, raptor = surrogate.teacher, surrogate.raptor
    losses = [TrajectoryLoss()] * (raptor.phases.k - 1) + [TrajectoryLoss(chosen.last_weights)]
    joined = TrajectoryLoss(chosen.joined_weights)

    def truth_of(batch: Batch | States) -> States:
        if isinstance(batch, Tensor):
            return batch.to(next(teacher.module.parameters()))  # its device and precision
        with torch.no_grad():
            return rollout(teacher, teacher.embed(batch.pixels.to(teacher.device))).states

    def stage_1(batch: Batch | States, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        forcing = annealed(step, chosen.apart.steps, chosen.forcing, chosen.forcing_share)
        return apart_loss(raptor, truth_of(batch), teacher.layout, losses, forcing, spread), {}

    def stage_2(batch: Batch | States, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        return joined_loss(raptor, truth_of(batch), teacher.layout, joined, spread), {}

    return [(STAGES[0], stage_1, chosen.apart, True), (STAGES[1], stage_2, chosen.joined, False)]
