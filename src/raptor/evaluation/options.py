"""Options of `raptor fidelity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option
from raptor.errors import OptionError


@dataclass(frozen=True)
class FidelityOptions:
    """What a surrogate is compared with, besides its teacher.

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
    """

    linear_images: Annotated[
        int,
        Option(
            "Number of images for the linear baselines, half to fit on and half to evaluate on; 0 omits them.", min=0
        ),
    ] = 256
    nulls: Annotated[
        bool,
        Option(
            "Also train this surrogate on null teachers: with random weights, untrained, and with shuffled layers.",
            flags=("--nulls",),
        ),
    ] = False
    null_steps: Annotated[
        int | None,
        Option(
            "Training steps per stage with --nulls; the teacher is then distilled again for as many, to compare. By "
            "default the steps of the surrogate.",
            min=1,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.linear_images < 0:
            raise OptionError(f"linear_images {self.linear_images} must be at least 0")
        if self.null_steps is not None and self.null_steps < 1:
            raise OptionError(f"null_steps {self.null_steps} must be at least 1")
        if self.null_steps is not None and not self.nulls:
            raise OptionError("--null-steps needs --nulls (null_steps= needs nulls=True)")
