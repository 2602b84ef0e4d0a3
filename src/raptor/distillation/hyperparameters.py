"""All hyper-parameters of a distillation, and how they are saved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from raptor.core.deserialize import from_plain
from raptor.core.json_values import ResultFormatError
from raptor.core.serialize import to_plain
from raptor.errors import OptionError
from raptor.training.config import TrainConfig

SHORTEST_WARMUP = 20  # steps; without it Muon turns rounding errors of its first gradients into full steps


@dataclass(frozen=True)
class Distillation:
    """All hyper-parameters of a distillation.

    Parameters
    ----------
    blockwise, end_to_end
        Optimisation of stage 1 (every block starts from the teacher's state at the input of its phase) and of stage 2
        (blocks are rolled out together from layer 0).
    kind, block
        Kind of the tied blocks, and their options, as in `build_raptor`.
    forcing, forcing_share
        Teacher forcing in stage 1: its initial weight, and the share of steps over which it falls to 0. The rest of
        the weight is on the block's own rollout within its phase.
    last_weights, end_to_end_weights
        Weights of token groups for the last block in stage 1, and for all layers in stage 2. Other blocks weight all
        tokens equally.
    normalise
        Whether each layer's loss is divided by the variance of its states.
    per_token
        With `normalise`, whether each token's error is divided by the variance at its own position and not by that of
        its group; None where the teacher has massive activations.
    crop
        Smallest share of an image that random crops show; 1 for no crops and no mirrored images; None for crops where
        training sees images repeatedly.
    window
        Side of the window of patches that stage 1 sees, over the side of the image; None for a window where the grid is
        large and blocks allow it. Stage 2 sees all patches.
    window_keeps
        Numbers of patches that every window sees besides its rectangle; None for those that are outlier tokens in most
        images.
    fit_images
        Number of images on which the blocks are fitted by least squares before training (`fit_surrogate`); 0 for copies
        of the middle block of each phase; None to fit them before a short training.
    head_weight
        Weight of a loss on the classes that the teacher's classifier predicts from the last layer, in stage 2; 0 trains
        on states alone.
    """

    blockwise: TrainConfig
    end_to_end: TrainConfig
    kind: str = "teacher"
    block: dict[str, Any] = field(default_factory=dict)
    forcing: float = 0.5
    forcing_share: float = 0.25
    last_weights: dict[str, float] | None = None
    end_to_end_weights: dict[str, float] | None = None
    normalise: bool = False
    per_token: bool | None = False
    crop: float | None = 1.0
    window: float | None = 1.0
    window_keeps: tuple[int, ...] | None = ()
    fit_images: int | None = 0
    head_weight: float = 0.0

    def __post_init__(self) -> None:
        shares = [1.0 if share is None else share for share in (self.crop, self.window)]
        if not all(0 < share <= 1 for share in shares):
            raise OptionError(f"crop {self.crop} and window {self.window} are shares of an image above 0 and at most 1")
        if not 0 <= self.head_weight < math.inf:
            raise OptionError(f"the weight of the loss on classes must be at least 0, not {self.head_weight}")

    def to_config(self) -> dict[str, Any]:
        """Return the hyper-parameters under the keys of checkpoints and model cards, which a resumed run compares."""
        values = asdict(self)
        # Later fields are left out at their defaults, so that trainings of earlier versions can be resumed. Training
        # replaces None before it calls this.
        later = {one.name for one in fields(self) if one.name in _LATER and values[one.name] in (one.default, None)}
        return {_KEYS.get(name, name): value for name, value in values.items() if name not in later}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Distillation:
        """Read the hyper-parameters that `to_config` wrote; other keys are ignored. Raise an OptionError otherwise."""
        keys = {one.name: _KEYS.get(one.name, one.name) for one in fields(cls)}
        given = to_plain({name: config[key] for name, key in keys.items() if key in config})
        try:
            read: Distillation = from_plain(cls, given)
        except ResultFormatError as error:
            raise OptionError(f"the record of the training cannot be read: {error}") from error
        for stage in (read.blockwise, read.end_to_end):
            if min(stage.steps, stage.batch_size - 1, stage.warmup) < 0:
                raise OptionError("the record of the training cannot be read: it has a negative number of steps")
        return read

    def with_steps(self, steps: int) -> Distillation:
        """Return the same recipe with other steps per stage; warm-up keeps its share of them.

        Parameters
        ----------
        steps
            Optimiser steps of each stage.
        """

        def shortened(stage: TrainConfig) -> TrainConfig:
            least = 0 if stage.muon_lr is None else min(stage.warmup, SHORTEST_WARMUP)
            return replace(stage, steps=steps, warmup=max(least, round(stage.warmup * steps / max(stage.steps, 1))))

        return replace(self, blockwise=shortened(self.blockwise), end_to_end=shortened(self.end_to_end))


# Fields that have other names in checkpoints, model cards and studies.
_LATER = ("per_token", "crop", "window", "window_keeps", "fit_images", "head_weight")
_KEYS = {"blockwise": "apart", "end_to_end": "joined", "end_to_end_weights": "joined_weights"}
