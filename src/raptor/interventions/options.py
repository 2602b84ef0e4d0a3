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
            "Random trials of each experiment: at most this many within phases, and at most this many across phases.",
            min=1,
        ),
    ] = 8
    matrix_images: Annotated[
        int,
        Option(
            "Number of images on which single layers are replaced, interchanged and skipped, in all possible ways; 0 "
            "omits this.",
            min=0,
        ),
    ] = 64
