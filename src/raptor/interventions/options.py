"""Options of `raptor intervene`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option


@dataclass(frozen=True)
class InterveneOptions:
    """How many layer orders are drawn.

    Parameters
    ----------
    most
        Maximum number of orders within phases, and as many across phases, of each experiment that changes pairs of
        layers. Experiments on runs of layers use all orders.
    """

    most: Annotated[
        int,
        Option(
            "Maximum number of changes to test per kind of change (such as "
            "replacing two layers), chosen at random: up to "
            "this many within phases, and up to this many across phases.",
            min=1,
        ),
    ] = 8
