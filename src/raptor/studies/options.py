"""Options of `raptor study`."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from raptor.core.options import Option

# Names of the studies that come with raptor: those of the modules, which need torch and are not imported here.
STUDY_NAMES = tuple(
    module.name.replace("_", "-") for module in pkgutil.iter_modules([str(Path(__file__).parent / "experiments")])
)
# The order in which `study all` runs them: first what all others rest on, then the questions by their weight.
STUDY_ORDER = (
    "controls", "stochastic-depth", "emergence", "overfitting", "partitions", "k-curve", "ablation", "gallery"
)  # fmt: skip
ALL = "all"  # every study
NAMES = (*STUDY_NAMES, ALL)  # what the command line accepts


@dataclass(frozen=True)
class StudyOptions:
    """What a study is run on, and at what size.

    Parameters
    ----------
    data
        Labelled images with a train and a test split: `scenes`, a folder, parquet files or a dataset id.
    size
        `smoke` (for tests), `laptop` (all studies in a few core-hours) or `paper` (a cluster).
    resume
        Continue a study that the directory already has; jobs that have a result are not repeated.
    """

    data: Annotated[
        str,
        Option("Labelled images with a train and a test split: scenes, a folder, parquet files or a dataset id."),
    ] = "scenes"
    size: Annotated[
        str,
        Option(
            "Size of the models and length of training: smoke (minutes), laptop (hours) or paper (needs a cluster)."
        ),
    ] = "laptop"
    resume: Annotated[
        bool, Option("Continue the study in --out, without repeating its finished parts.", flags=("--resume",))
    ] = False
