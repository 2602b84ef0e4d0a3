r"""Drift: similarity as one decreasing function of the time between two layers.

The function is (1 - n)((1 + c) exp(-(a t)^b) - c): 1 - n right away, -c (1 - n) in the end, a the pace and b
the shape in between. What time is decides the kind of drift: the number of layers between, or the distance
along a clock of the model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

PARAMETERS = 4  # a, b, c, n

# The least cosine that a logarithm is taken of: fewer than nothing in common cannot be told from nothing.
LEAST_COSINE = 1e-3

Matrices = Float[np.ndarray, "n layers layers"]
Pairs = Float[np.ndarray, "n pairs"]

# Clocks: how much time the step from a layer to the next takes, given the cosine of the two.
CLOCKS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    # A random walk on the sphere has exp(-t) along this one, whatever its pace.
    "log cosine": lambda cosine: -np.log(np.clip(cosine, LEAST_COSINE, 1.0)),
    # A great circle has cos(t) along this one, whatever its pace.
    "arc length": lambda cosine: np.arccos(np.clip(cosine, -1.0, 1.0)),
}


def pairs_of(matrices: Matrices) -> Pairs:
    """Return the part above the diagonal, pair by pair."""
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    return matrices[:, rows, columns]


def layers_between(matrices: Matrices) -> Pairs:
    """Return the number of layers between the two of each pair."""
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    return np.broadcast_to((columns - rows).astype(float), (len(matrices), len(rows)))


def clock_between(matrices: Matrices, clock: str) -> Pairs:
    """Return the time between the two layers of each pair along the model's own clock."""
    steps = CLOCKS[clock](np.diagonal(matrices, 1, axis1=1, axis2=2))
    times = np.concatenate([np.zeros((len(matrices), 1)), np.cumsum(steps, axis=1)], axis=1)
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    return times[:, columns] - times[:, rows]


# Where the search begins: pace in units of 1 / longest time, shape.
_PACES, _SHAPES = np.geomspace(0.15, 30, 16), np.geomspace(0.3, 8, 9)
_ZOOMS, _SHRINK = 12, 0.6


def fit_drift(times: Pairs, similarities: Pairs) -> Pairs:
    """Fit the function of the module to each row by least squares; return its values.

    Given a and b the function is linear in the rest, which is solved for in closed form (variable projection); a
    and b are searched on a grid that is narrowed around the best point again and again.
    """
    longest = np.maximum(times.max(axis=1, keepdims=True), 1e-12)
    log_times = np.log(np.maximum(times / longest, 1e-12))
    mean = similarities.mean(axis=1, keepdims=True)
    target = similarities - mean
    rows = np.arange(len(times))
    best = np.full(len(times), np.inf)
    centre = np.zeros((len(times), 2))
    fitted = np.zeros_like(target)

    grid = np.log(np.stack(np.meshgrid(_PACES, _SHAPES, indexing="ij"), axis=-1).reshape(1, -1, 2))
    width = np.array([np.log(_PACES[1] / _PACES[0]), np.log(_SHAPES[1] / _SHAPES[0])])
    around = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1], indexing="ij"), axis=-1).reshape(1, -1, 2)
    for zoom in range(_ZOOMS + 1):
        tried = np.broadcast_to(grid, (len(times), *grid.shape[1:])) if zoom == 0 else centre[:, None] + width * around
        # The exponent is bounded so that nothing overflows: exp(-exp(6)) is nought already.
        exponent = np.exp(tried[..., 1:]) * (log_times[:, None] + tried[..., :1])
        decay = np.exp(-np.exp(np.minimum(exponent, 6.0)))
        decay -= decay.mean(axis=2, keepdims=True)
        power = np.einsum("ngp,ngp->ng", decay, decay)
        shared = np.einsum("ngp,np->ng", decay, target)
        height = np.maximum(shared, 0) / np.maximum(power, 1e-12)  # similarity never grows with time
        left = np.sum(target**2, axis=1, keepdims=True) - 2 * height * shared + height**2 * power
        pick = left.argmin(axis=1)
        better = left[rows, pick] < best
        best[better] = left[rows, pick][better]
        centre[better] = tried[rows, pick][better]
        fitted[better] = (height[rows, pick, None] * decay[rows, pick])[better]
        if zoom:
            width = width * _SHRINK
    return mean + fitted
