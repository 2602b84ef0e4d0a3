"""Distillation: a surrogate learns its teacher's trajectory, the blocks apart first, then joined.

The teacher runs live and without gradients; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.data.batch import Batch
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.flow import rollout
from raptor.models.raptor import Raptor
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.phases import Phases
from raptor.tokens import TokenLayout
from raptor.training.loop import Watch, fit
from raptor.training.losses import TrajectoryLoss
from raptor.training.recipe import Recipe
from raptor.training.schedules import annealed

States = Float[Tensor, "batch layers tokens width"]


@dataclass(frozen=True)
class Distillation:
    """How a surrogate is trained.

    Parameters
    ----------
    apart, joined
        The optimisation of stage 1 (every block from the true input of its phase) and of stage 2 (rolled out from
        layer 0).
    kind, block
        Of the tied blocks, and their options, as in `build_surrogate`.
    forcing, forcing_share
        Teacher forcing of stage 1: its weight at the start, and the share of steps over which it falls to 0; the rest
        of the weight is on the block's own rollout within its phase.
    last_weights, joined_weights
        Token weights of the last block in stage 1, and of all layers in stage 2; other blocks count every token alike.
    normalise
        Whether each layer's loss is divided by the variance of its states.
    """

    apart: Recipe
    joined: Recipe
    kind: str = "teacher"
    block: dict[str, Any] = field(default_factory=dict)
    forcing: float = 0.5
    forcing_share: float = 0.25
    last_weights: dict[str, float] | None = None
    joined_weights: dict[str, float] | None = None
    normalise: bool = False


def apart_loss(
    raptor: Raptor, truth: States, layout: TokenLayout, losses: list[TrajectoryLoss], forcing: float
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
    """
    total = truth.new_zeros(())
    for block, span, loss in zip(raptor.blocks, raptor.phases.ranges, losses, strict=True):
        wanted = truth[:, span[0] : span[-1] + 1]
        if forcing > 0:
            # All layers of the phase in one call: samples of a batch may be at different layers.
            inputs = truth[:, span[0] - 1 : span[-1]]
            target = torch.tensor(span, dtype=truth.dtype, device=truth.device).repeat(len(truth))
            forced = block(inputs.flatten(0, 1), target).unflatten(0, inputs.shape[:2])
            total = total + forcing * loss(forced, wanted, layout).mean()
        if forcing < 1:
            rolled = _roll(raptor, truth[:, span[0] - 1], span)
            total = total + (1 - forcing) * loss(rolled, wanted, layout).mean()
    return total


def joined_loss(raptor: Raptor, truth: States, layout: TokenLayout, loss: TrajectoryLoss) -> Tensor:
    """Return the loss of stage 2: the blocks joined, rolled out from layer 0, over all layers."""
    rolled = _roll(raptor, truth[:, 0], range(1, raptor.phases.depth + 1))
    return loss(rolled, truth[:, 1:], layout).mean()


def _roll(raptor: Raptor, tokens: Tensor, layers: range) -> States:
    """Return the surrogate's own states at `layers`, from true states at the layer before the first."""
    states = []
    for layer in layers:
        tokens = raptor.step(tokens, layer - 1)
        states.append(tokens)
    return torch.stack(states, dim=1)


def distill(
    teacher: Teacher,
    images: Images | SceneImages,
    phases: Phases,
    distillation: Distillation,
    out: Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
    about: dict[str, Any] | None = None,
) -> tuple[Surrogate, float]:
    """Train a surrogate of a teacher; return it with the seconds that it took.

    Parameters
    ----------
    teacher
        Runs live on every batch.
    images
        To train on; labels are not used.
    phases
        One tied block a phase.
    distillation
        Both stages.
    out, resume, watch, about
        As in `fit`; each stage has a directory of its own in `out`.
    """
    torch.manual_seed(distillation.apart.seed)
    surrogate = build_surrogate(teacher, phases, distillation.kind, **distillation.block)
    raptor = surrogate.raptor
    plain = TrajectoryLoss(None, distillation.normalise)
    losses = [plain] * (phases.k - 1) + [TrajectoryLoss(distillation.last_weights, distillation.normalise)]
    joined = TrajectoryLoss(distillation.joined_weights, distillation.normalise)

    def truth_of(batch: Batch) -> States:
        with torch.no_grad():
            return rollout(teacher, teacher.embed(batch.pixels)).states

    def stage_1(item: tuple[int, Batch]) -> tuple[Tensor, dict[str, Tensor]]:
        forcing = annealed(item[0], distillation.apart.steps, distillation.forcing, distillation.forcing_share)
        return apart_loss(raptor, truth_of(item[1]), teacher.layout, losses, forcing), {}

    def stage_2(item: tuple[int, Batch]) -> tuple[Tensor, dict[str, Tensor]]:
        return joined_loss(raptor, truth_of(item[1]), teacher.layout, joined), {}

    seconds = 0.0
    stages = (
        ("stage1", stage_1, distillation.apart, tuple(raptor.blocks)),
        ("stage2", stage_2, distillation.joined, ()),
    )
    for name, objective, recipe, apart in stages:

        def batches(first: int, recipe: Recipe = recipe) -> Iterator[tuple[int, Batch]]:
            return enumerate(images.shuffled(first, recipe.batch_size, recipe.seed), first)

        folder = None if out is None else out / name
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        everything = {"phases": str(phases), "stage": name, "distillation": asdict(distillation), **(about or {})}
        if recipe.steps:
            seconds += fit(raptor, objective, batches, recipe, folder, resume, everything, watch=watch, apart=apart)
    return surrogate.eval(), seconds
