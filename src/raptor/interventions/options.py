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
    matrix_images
        Number of images for the matrices in which every layer is replaced by every other; 0 leaves them out.
    """

    most: Annotated[
        int,
        Option(
            "Maximum number of random layer changes per experiment: this many within phases, and this many across.",
            min=1,
        ),
    ] = 8
    matrix_images: Annotated[
        int,
        Option(
            "Number of images for replacing each layer by each other one and for skipping each layer; 0 skips this.",
            min=0,
        ),
    ] = 64
