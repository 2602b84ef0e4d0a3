"""Validation during a distillation: on images that it is not trained on, and on as many that it is.

A distillation never returns a surrogate that is worse than its start. With as many blocks as layers, the start is exact
and training only adds noise. With few images, training may overfit: the gap between the two sets of images shows it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from raptor.core.batches import Batch, LoadedImageSet
from raptor.distillation.activation_cache import StatesCache
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.losses import States, StateVariance, TrajectoryLoss
from raptor.distillation.stage_losses import mean_over_layers, roll
from raptor.models.surrogate import Surrogate
from raptor.runtime.distributed import is_main_process
from raptor.runtime.files import explained, writing
from raptor.runtime.notes import note
from raptor.training.log import step_of

MOST = 64  # validation images
SHARE = 16  # training takes at least this many images per validation image
FEWEST = 20  # images; from fewer, none are split off, and training images validate
POINTS = 24  # of the curve, over both stages
COST = 0.05  # largest share of the training's time that the curve takes
STEP_COST = 3.5  # of a training step over a forward pass of teacher and surrogate, roughly
OVERFIT = 1.25  # error on validation images over that on training images from which a note is given
CURVE = "validation.jsonl"

ImagesOrStates = LoadedImageSet | StatesCache


def split_off(images: ImagesOrStates, recipe: Distillation) -> tuple[ImagesOrStates, ImagesOrStates]:
    """Return what to train on, and what to validate on.

    Parameters
    ----------
    images
        Training images, or their cached states.
    recipe
        A short training needs few validation images.
    """
    n = max(2, min(MOST, _seen(recipe) // SHARE, len(images) // 10))
    return images.split_off(n) if len(images) >= FEWEST else (images, images.sample(n))


def _seen(recipe: Distillation) -> int:
    return sum(stage.steps * stage.batch_size for stage in (recipe.blockwise, recipe.end_to_end))


@dataclass
class Validation:
    """The errors of a surrogate before, during and after training.

    Parameters
    ----------
    surrogate
        Trained in place; its weights at the time of creation are the start.
    recipe
        Its steps say how many points the curve has.
    held_out, trained_on
        Validation images, and as many that the surrogate is trained on; or their cached states.
    truth_of
        Returns the teacher's states of a batch.
    loss, variance
        Loss of the end-to-end stage, and the variance that normalises it.
    """

    surrogate: Surrogate
    recipe: Distillation
    held_out: ImagesOrStates
    trained_on: ImagesOrStates
    truth_of: Callable[[Batch | States], States]
    loss: TrajectoryLoss
    variance: StateVariance | None
    weights: dict[str, Tensor] = field(init=False)
    start: float = field(init=False)
    recorded: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.weights = {name: value.clone() for name, value in self.surrogate.raptor.state_dict().items()}
        self.start = self.measure(self.held_out)["error"]

    @torch.no_grad()
    def measure(self, images: ImagesOrStates) -> dict[str, float]:
        """Return the mean error of the rollout from layer 0, and at layer L the cosine, skill and agreement of classes.

        Parameters
        ----------
        images
            Images, or their cached states.
        """
        teacher, raptor = self.surrogate.teacher, self.surrogate.raptor.eval()
        layers, sums = range(1, teacher.depth + 1), dict[str, float]()
        squares = torch.zeros(2, dtype=torch.float64)  # at layer L: of the error, and of the way from layer 0
        for batch in images:
            truth = self.truth_of(batch)
            states = roll(raptor, truth[:, 0], layers)
            by_layer, last = self.loss(states, truth[:, 1:], teacher.layout, self.variance), states[-1]
            values = {
                "error": mean_over_layers(raptor, by_layer, layers),
                "cosine": cosine_similarity(last, truth[:, -1], dim=-1).mean(),
            }
            squares += torch.stack(
                [(last - truth[:, -1]).square().sum(), (truth[:, -1] - truth[:, 0]).square().sum()]
            ).cpu()
            if teacher.head is not None:
                same = teacher.head(last).argmax(dim=-1) == teacher.head(truth[:, -1]).argmax(dim=-1)
                values["agreement"] = same.float().mean()
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + len(truth) * float(value)
        return {
            **{name: total / len(images) for name, total in sums.items()},
            "skill": float(1 - squares[0] / squares[1]),
        }

    def every(self) -> int:
        """Return the number of steps between two points of the curve."""
        affordable = COST * STEP_COST * _seen(self.recipe) / (len(self.held_out) + len(self.trained_on))
        steps = self.recipe.blockwise.steps + self.recipe.end_to_end.steps
        return max(1, round(steps / min(POINTS, affordable))) if affordable >= 1 else steps + 1

    def begin(self, folder: Path, resume: bool) -> None:
        """Begin the curve of a stage, or continue it.

        Parameters
        ----------
        folder
            Directory of the stage.
        resume
            Whether the training continues one that stopped.
        """
        file = folder / CURVE
        found = file.read_text(errors="replace").splitlines(keepends=True) if resume and file.exists() else []
        # A kill may have cut off the last line; steps that are repeated have the same values.
        lines = [line for line in found if line.endswith("\n") and step_of(line) < math.inf]
        self.recorded = int(step_of(lines[-1])) if lines else 0
        if is_main_process() and lines:
            with writing(file) as new:
                new.writelines(line.encode() for line in lines)
        elif is_main_process():
            file.unlink(missing_ok=True)

    def record(self, folder: Path | None, batch_size: int, step: int, seconds: float) -> None:
        """Add a point to the curve of a stage.

        Parameters
        ----------
        folder
            Directory of the stage; None records nothing.
        batch_size
            Images per step.
        step, seconds
            Steps and seconds of the stage so far.
        """
        if folder is None or step % self.every() or step <= self.recorded:
            return
        held_out, trained_on = self.measure(self.held_out), self.measure(self.trained_on)
        self.surrogate.raptor.train()
        line: dict[str, float] = {"step": step, "images": step * batch_size, "seconds": round(seconds, 3), **held_out}
        line["train_error"] = trained_on["error"]
        with explained(folder), (folder / CURVE).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def keep_better(self) -> dict[str, float | int | str]:
        """Restore the start where training made the surrogate worse; return the errors and which one was kept."""
        end, train = self.measure(self.held_out)["error"], self.measure(self.trained_on)["error"]
        worse = not end <= self.start  # also where it is not a number
        n = len(self.held_out)
        if worse:
            self.surrogate.raptor.load_state_dict(self.weights)
            note(
                f"training made the surrogate worse on {n} images that it is not trained on (error "
                f"{self.start:.4g} before, {end:.4g} after): its weights at the start are kept"
            )
        elif end > OVERFIT * train:
            note(
                f"the surrogate overfits: its error is {end:.4g} on {n} images that it is not trained on, and "
                f"{train:.4g} on as many training images. More images, or smaller random crops (--crop), would help"
            )
        kept = "start" if worse else "end"
        return {"images": n, "start": self.start, "end": end, "train": train, "kept": kept}
