"""Fixed points: a flow that goes on beyond its last layer by its last step, and whether directions come to rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.geometry import Convergence, Speed
from raptor.dynamics.motion import observe
from raptor.flow import DepthFlow
from raptor.rewiring import Rewired

BEYOND = 48  # layers
AT_REST = 1e-3  # radians a layer below which directions count as at rest


@dataclass(frozen=True)
class Settling:
    """How directions go on beyond the last layer.

    Parameters
    ----------
    speed
        Angle between layers l and l + 1, from layer L on.
    from_last
        By group, the cosine of layer L with the last one: how far the fixed point is from where the model stops.
    settled
        By group, the first layer beyond L at which the mean speed is below a thousandth of a radian; None if never.
    rate
        By group, the factor by which speed changes a layer, over the second half of what was run: below 1 it settles.
    """

    speed: ByLayer
    from_last: dict[str, float]
    settled: dict[str, int | None]
    rate: dict[str, float]


def settle(flow: DepthFlow, images: Iterable[Any], beyond: int = BEYOND, seed: int = 0) -> Settling:
    """Run the last step again and again; of a surrogate, its last block with the last layer's own scaling.

    Parameters
    ----------
    flow
        A surrogate, or any flow.
    images
        A few.
    beyond
        Layers after the last.
    seed
        Of the bootstrap over images.
    """
    longer = Rewired(flow, [*range(flow.depth), *[flow.depth - 1] * beyond])
    speed, gamma = Speed(), Convergence()
    observe(longer, images, speed, gamma)
    whole = speed.result(seed)
    after = ByLayer(
        mean={group: values[flow.depth :] for group, values in whole.mean.items()},
        low={group: values[flow.depth :] for group, values in whole.low.items()},
        high={group: values[flow.depth :] for group, values in whole.high.items()},
        n=whole.n,
        seed=seed,
    )
    last = {group: values[flow.depth] for group, values in gamma.result(seed).mean.items()}
    settled = {
        group: next((i for i, value in enumerate(values) if value < AT_REST), None)
        for group, values in after.mean.items()
    }
    return Settling(after, last, settled, {group: _rate(values) for group, values in after.mean.items()})


def _rate(speeds: list[float]) -> float:
    """Return the factor a layer of the line through the logarithms, without what is at rest to rounding."""
    half = [(i, speed) for i, speed in enumerate(speeds) if i >= len(speeds) // 2 and speed > 1e-6]
    if len(half) < 2:
        return float("nan")
    layers, values = zip(*half, strict=True)
    return float(np.exp(np.polyfit(layers, np.log(values), 1)[0]))
