"""Options of `raptor fidelity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option, parse_counts
from raptor.core.serialize import Key
from raptor.errors import OptionError
from raptor.runtime.options import TOGETHER, Outliers, check_outliers


@dataclass(frozen=True)
class FidelityOptions:
    """What a surrogate is compared with, besides its teacher, and by which token groups.

    Parameters
    ----------
    linear_images
        Number of images for the linear baselines: maps are fitted on one half of them and evaluated on the other; 0
        leaves the baselines out.
    nulls
        Whether to train the same surrogate on null teachers: random, untrained and shuffled.
    null_steps
        Optimiser steps per stage for the null teachers, and for the teacher itself; None trains the null teachers for
        as many steps as the surrogate was trained for.
    outliers
        `together` or `separate`: whether patches with massive activations are a token group of their own, `outlier`.
    elastic
        Total numbers of steps for which the surrogate is also run; None for its own alone.
    """

    linear_images: Annotated[
        int,
        Option(
            "Number of images for the linear baselines, which replace a phase by an affine map: half of the images to "
            "fit the maps, half to evaluate them. 0 skips the baselines.",
            min=0,
        ),
    ] = 256
    nulls: Annotated[
        bool,
        Option(
            "Also train the same kind of surrogate for three control networks without recurrence: random weights with "
            "the teacher's norms, a newly initialised ViT, and the teacher with its layers shuffled.",
            flags=("--nulls",),
        ),
    ] = False
    null_steps: Annotated[
        int | None,
        Option(
            "Training steps per stage for the control networks of --nulls. For a fair comparison, a new surrogate of "
            "the teacher is trained for as many steps. Default: the training steps of SURROGATE.",
            min=1,
        ),
    ] = None
    outliers: Outliers = TOGETHER
    elastic: Annotated[
        list[int] | None,
        Option(
            "Also run the surrogate for these total numbers of steps, such as 6,12,24, and compare its last tokens "
            "with the teacher's.",
            parse=parse_counts,
        ),
        Key(omit_none=True),
    ] = None

    def __post_init__(self) -> None:
        check_outliers(self.outliers)
        if self.linear_images < 0:
            raise OptionError(f"linear_images {self.linear_images} must be at least 0")
        if self.null_steps is not None and self.null_steps < 1:
            raise OptionError(f"null_steps {self.null_steps} must be at least 1")
        if self.null_steps is not None and not self.nulls:
            raise OptionError("--null-steps needs --nulls (null_steps= needs nulls=True)")
