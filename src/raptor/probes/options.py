"""Options of `raptor probe` and `raptor table1`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from raptor.core.options import Option, parse_counts, parse_numbers
from raptor.errors import OptionError

SEEDS = (0, 1, 2)

Lrs = Annotated[
    Sequence[float] | None,
    Option(
        "Learning rates to try, such as 1e-3,1e-2; the best on validation images is used. Default: three or four "
        "values around the paper's.",
        parse=parse_numbers,
    ),
]
Epochs = Annotated[float | None, Option("Passes over the training images. Default: as in the paper.")]
Seeds = Annotated[
    int | None, Option("Number of random seeds, counted from --seed. Each probe is trained once per seed.", min=1)
]
Fit = Annotated[
    str,
    Option(
        "How images are brought to the input size: own (the model's preprocessing), squash (resize to the input size "
        "and ignore the aspect ratio) or pad (pad without resizing)."
    ),
]
EigenCrop = Annotated[
    bool,
    Option("Evaluate depth on the Eigen crop of NYU Depth v2.", flags=("--eigen-crop",)),
]


@dataclass(frozen=True)
class ProbeOptions:
    """How the heads of a probe are trained, and which features they read.

    Parameters
    ----------
    lrs
        Peak learning rates; each trains a head, and the best one on the selection images is reported. By default the
        task's own.
    seeds
        Seeds of the initial weights and of the order of images; each is a separate training.
    epochs, batch_size
        Passes over the training images and images per step; by default the task's own.
    layer
        Layer whose states are read, 0..L; by default the last.
    cache
        Directory for the features of the training images; by default they are kept in memory up to 4 GB.
    live
        Keep no features: the model runs on every training batch.
    """

    lrs: Lrs = None
    seeds: Sequence[int] = SEEDS
    epochs: Epochs = None
    batch_size: int | None = None
    layer: Annotated[int | None, Option("Layer to probe; 0 is the embedding. Default: the last.", min=0)] = None
    cache: Annotated[
        Path | None, Option("Directory that keeps the features of the training images for later runs (float16).")
    ] = None
    live: Annotated[
        bool, Option("Run the model again in every epoch. By default, features are computed once.", flags=("--live",))
    ] = False

    def __post_init__(self) -> None:
        lrs = (1.0,) if self.lrs is None else self.lrs
        if not lrs or len(set(lrs)) < len(lrs) or not all(math.isfinite(lr) and lr > 0 for lr in lrs):
            raise OptionError(f"learning rates must be positive and different from each other, not {list(lrs)}")
        if not self.seeds:
            raise OptionError("a probe needs at least one seed")
        epochs = 1.0 if self.epochs is None else self.epochs
        if not (math.isfinite(epochs) and epochs > 0):
            raise OptionError(f"epochs must be positive, not {self.epochs}")
        if self.batch_size is not None and self.batch_size < 1:
            raise OptionError(f"the batch size must be at least 1, not {self.batch_size}")
        if self.live and self.cache is not None:
            raise OptionError("features are either computed live or cached: give --live or --cache, not both")


@dataclass(frozen=True)
class Table1Options:
    """Which models Table 1 has, and how they are probed.

    Parameters
    ----------
    k
        Numbers of blocks of the surrogates; by default those of the given surrogates, or else those that are bundled
        with the model.
    surrogates
        Directories of surrogates. A surrogate that is neither given nor bundled has to be distilled.
    baseline
        A smaller model to compare with.
    untied
        Numbers of blocks of untied controls.
    steps
        Training steps of each stage, where a surrogate is distilled.
    eval_data, eval_images
        Images to report on, and how many; at most 500 images are selected on.
    lrs, epochs, seeds
        As in `ProbeOptions`.
    fit
        How images get the model's input size: `own`, `squash` or `pad`.
    eigen_crop
        Report depth on Eigen's crop.
    """

    k: Annotated[
        Sequence[int] | None,
        Option(
            ("Numbers of blocks, such as 2,3,4: one surrogate is trained for each. Default without --surrogates: 2,3."),
            parse=parse_counts,
        ),
    ] = None
    surrogates: Annotated[
        list[str] | None,
        Option(
            "Directories of existing surrogates, separated by commas (repeatable). raptor trains a surrogate only "
            "for numbers in --k that none of these has."
        ),
    ] = None
    baseline: Annotated[str | None, Option("A smaller model to add to the table.")] = None
    untied: Annotated[
        Sequence[int],
        Option(
            "Also train control networks with these numbers of blocks, such as 2,3, each block applied only once.",
            parse=parse_counts,
        ),
    ] = ()
    steps: Annotated[int, Option("Training steps per stage, for surrogates that are distilled.", min=1)] = 1000
    eval_data: Annotated[str | None, Option("Images to evaluate on. Default: the held-out split of --data.")] = None
    eval_images: Annotated[
        int, Option("Number of test images. The learning rate is chosen on up to 500 other images.", min=1)
    ] = 2000
    lrs: Lrs = None
    epochs: Epochs = None
    seeds: Sequence[int] = SEEDS
    fit: Fit = "own"
    eigen_crop: EigenCrop = False

    def __post_init__(self) -> None:
        self.probe_options()  # whose values are checked

    def probe_options(self) -> ProbeOptions:
        """Return the options of the probes."""
        return ProbeOptions(self.lrs, self.seeds, self.epochs)
