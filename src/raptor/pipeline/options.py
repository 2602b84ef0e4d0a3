"""Options of `raptor run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option
from raptor.phases.options import AUTO, parse_k
from raptor.pipeline.presets import PRESETS


@dataclass(frozen=True)
class PipelineOptions:
    """What the whole pipeline does.

    Parameters
    ----------
    k
        Number of phases; `auto` chooses it.
    preset
        `quick` (minutes), `standard`, `measure` (as `standard`, but trains no surrogate) or `full`; see
        `pipeline.presets`.
    surrogates
        Surrogates to measure besides the one that is trained. For `scenes`, those that come with raptor by default.
    """

    k: Annotated[int | str, Option("Number of phases, or auto to let raptor choose it.", parse=parse_k)] = AUTO
    preset: Annotated[
        str,
        Option(
            f"Number of images and training steps: {', '.join(PRESETS)}. quick takes minutes, full takes hours. "
            "measure is for 1,000 images and trains nothing: give finished surrogates with --surrogate."
        ),
    ] = "standard"
    surrogates: Annotated[
        list[str] | None,
        Option(
            "Existing surrogate to measure, besides the one that this command trains (repeatable).",
            flags=("--surrogate",),
        ),
    ] = None
