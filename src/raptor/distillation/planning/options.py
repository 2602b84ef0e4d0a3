"""Options of `raptor plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option
from raptor.distillation.options import Recipe


@dataclass(frozen=True)
class PlanOptions:
    """What a full distillation is.

    Parameters
    ----------
    dataset_size
        Number of training images.
    k
        Number of phases.
    devices
        Number of devices like the one that the steps are timed on.
    epochs
        Passes over the images in each of the two stages.
    recipe
        `default`, `paper` or `released`.
    batch_size
        Images per step.
    runs
        Directories of finished distillations of different lengths, with one recipe and the same phases. A law fitted to
        them says what this budget would reach.
    target
        Share of the teacher's accuracy to recover; needs `runs`.
    tflops
        Sustained speed of one device, in 1e12 operations per second, in place of timed steps.
    """

    dataset_size: Annotated[int, Option("Number of training images.", min=1)]
    k: Annotated[int, Option("Number of blocks.", min=1)] = 3
    devices: Annotated[int, Option("Number of devices, each as fast as this one.", min=1)] = 1
    epochs: Annotated[float, Option("Passes over the images in each of the two training stages.", min=0)] = 20.0
    recipe: Recipe = "default"
    batch_size: int = 32
    runs: Annotated[
        list[str] | None,
        Option(
            "Directory of a finished distillation (repeatable). From three or more with different numbers of images, a "
            "fitted law says what this budget would reach.",
            flags=("--run",),
        ),
    ] = None
    target: Annotated[
        float | None,
        Option(
            "Share of the teacher's accuracy to recover, such as 0.9: how many images and hours it takes. Needs --run."
        ),
    ] = None
    tflops: Annotated[
        float | None,
        Option("Sustained speed of the device to plan for, in 1e12 operations per second. Default: timed on this one."),
    ] = None
