"""Options of `raptor phases`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option
from raptor.errors import OptionError
from raptor.phases.objectives import OBJECTIVES
from raptor.runtime.options import TOGETHER, Outliers, check_outliers

AUTO = "auto"
SIMILARITY, FUNCTION, FIT = "similarity", "function", "fit"
METHODS = (SIMILARITY, FUNCTION, FIT)  # each also measures those before it
FUNCTION_IMAGES, FIT_IMAGES = 64, 256


def parse_k(text: str, name: str = "--k") -> int | str:
    """Read a number of phases, `3`, or `auto`."""
    if text == AUTO:
        return text
    # The bound on digits keeps a hostile string from becoming a huge integer.
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise OptionError(f"{name} is a number of phases or 'auto', not {text!r}")
    return int(text)


@dataclass(frozen=True)
class PhasesOptions:
    """How depth is partitioned into phases.

    Parameters
    ----------
    k
        Number of phases; `auto` uses `useful_k`.
    group
        Tokens whose similarity is partitioned: `all`, `cls`, `patch`, `register` or `cls+mean-patch`; with separate
        outliers, `outlier` too.
    objective
        Name of a registered objective: `weighted`, `mean` or `cut`.
    solver
        `dp` (exact), `exhaustive` or `recursive`.
    min_length
        Minimum number of layers in a phase.
    by
        What phases are found from: `similarity` of states; `function`, whether blocks can stand in for one another; or
        `fit`, how well one block fits all layers of a phase. `fit` measures all three.
    function_images, fit_images
        Number of images for `function` and for `fit`, which cost more per image than similarity. None measures them
        only where `by` needs them, on 64 and 256 images.
    outliers
        `together` or `separate`: whether patches with massive activations are a token group of their own, `outlier`.
    """

    k: Annotated[int | str, Option("Number of phases, or auto to let raptor choose it.", parse=parse_k)] = AUTO
    group: Annotated[
        str, Option("Tokens whose similarity is measured: all, cls, patch, register or cls+mean-patch.")
    ] = "all"
    objective: Annotated[
        str,
        Option(
            "Score of a partition: "
            + "; ".join(f"{name} ({objective.summary})" for name, objective in OBJECTIVES.items())
            + "."
        ),
    ] = "weighted"
    solver: Annotated[
        str,
        Option(
            "How the best partition is found: dp (dynamic programming, exact), exhaustive (tries all) or recursive "
            "(splits in two repeatedly; not exact). The authors' code uses recursive with --objective cut."
        ),
    ] = "dp"
    min_length: Annotated[int, Option("Minimum number of layers in a phase.", min=1)] = 2
    by: Annotated[
        str,
        Option(
            "What to group layers by: similarity (of their tokens), function (how well the block of one layer can "
            "replace that of another) or fit (how well one block, refitted by least squares, can replace all layers "
            "of a phase)."
        ),
    ] = SIMILARITY
    function_images: Annotated[
        int | None,
        Option(
            "Number of images for testing whether layers are interchangeable. Default: "
            f"{FUNCTION_IMAGES} with --by function or fit; otherwise the test is skipped.",
            min=2,
        ),
    ] = None
    fit_images: Annotated[
        int | None,
        Option(
            f"Number of images for fitting blocks by least squares. Default: {FIT_IMAGES} with --by fit; otherwise the "
            "fits are skipped.",
            min=2,
        ),
    ] = None
    outliers: Outliers = TOGETHER

    def __post_init__(self) -> None:
        check_outliers(self.outliers)

    def images_for(self, method: str) -> int | None:
        """Return the number of images for `function` or `fit`; None if it is not measured."""
        given, default = {
            FUNCTION: (self.function_images, FUNCTION_IMAGES), FIT: (self.fit_images, FIT_IMAGES)
        }[method]  # fmt: skip
        needed = METHODS.index(method) <= METHODS.index(self.by)
        return given if given is not None else default if needed else None
