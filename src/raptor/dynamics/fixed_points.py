"""Fixed points: iterate the last step beyond the last layer, and see whether directions converge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from raptor.core.batches import ImageSource
from raptor.core.estimate import LayerEstimates
from raptor.core.flow import DepthFlow, ReorderedFlow
from raptor.core.serialize import Key
from raptor.dynamics.curves.convergence import Convergence
from raptor.dynamics.curves.speed import Speed
from raptor.dynamics.measures import run_measures

BEYOND = 48  # layers
CONVERGED_SPEED = 1e-3  # radians per layer below which directions count as converged


@dataclass(frozen=True)
class FixedPointResult:
    """Directions when the last step is repeated beyond the last layer L.

    Parameters
    ----------
    speed
        Angle between the layers l and l + 1 in radians, from layer L.
    n
        Number of images.
    from_last
        By token group, the cosine between layer L and the last iteration: how far the model stops from the fixed point.
    rate
        By token group, the factor by which the speed changes per layer, over the second half of the iterations; below 1
        directions converge.
    converged_layer
        By token group, the number of layers after L until the mean speed is below 0.001 radians; None if never.
    """

    speed: LayerEstimates
    n: int
    from_last: dict[str, float]
    rate: dict[str, float]
    converged_layer: Annotated[dict[str, int | None], Key(name="settled")]


def iterate_last_step(flow: DepthFlow, images: ImageSource, beyond: int = BEYOND, seed: int = 0) -> FixedPointResult:
    """Repeat the last step after the last layer; for a surrogate, its last block with the last layer's scaling.

    Parameters
    ----------
    flow
        A surrogate, or any flow.
    images
        A few images.
    beyond
        Number of layers after the last.
    seed
        Seed of the bootstrap over images.
    """
    longer = ReorderedFlow(flow, [*range(flow.depth), *[flow.depth - 1] * beyond])
    speed, gamma = Speed(), Convergence()
    run_measures(longer, images, speed, gamma)
    whole = speed.compute(seed)
    after = LayerEstimates(
        mean={group: values[flow.depth :] for group, values in whole.mean.items()},
        low={group: values[flow.depth :] for group, values in whole.low.items()},
        high={group: values[flow.depth :] for group, values in whole.high.items()},
        n=whole.n,
        seed=seed,
    )
    last = {group: values[flow.depth] for group, values in gamma.compute(seed).mean.items()}
    converged_layer = {
        group: next((i for i, value in enumerate(values) if value < CONVERGED_SPEED), None)
        for group, values in after.mean.items()
    }
    rate = {group: _rate(values) for group, values in after.mean.items()}
    return FixedPointResult(after, whole.n, last, rate, converged_layer)


def _rate(speeds: list[float]) -> float:
    """Return the factor per layer from a line through the logarithms, without speeds at the level of rounding."""
    half = [(i, speed) for i, speed in enumerate(speeds) if i >= len(speeds) // 2 and speed > 1e-6]
    if len(half) < 2:
        return float("nan")
    layers, values = zip(*half, strict=True)
    return float(np.exp(np.polyfit(layers, np.log(values), 1)[0]))
