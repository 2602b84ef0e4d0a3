r"""Drift: similarity as a decreasing function of the time between two layers.

The function is (1 - n)((1 + c) exp(-(a t)^b) - c): 1 - n at t = 0+, -c (1 - n) in the limit, with the rate a and the
shape b. In a uniform drift, time is the number of layers between the two; in a non-uniform drift, it is the distance
along a time parameterisation that is estimated from single steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from raptor.core.phases import Phases

PARAMETERS = 4  # a, b, c, n

# Cosines are clipped to this minimum before the logarithm.
LEAST_COSINE = 1e-3

Matrices = Float[np.ndarray, "n layers layers"]
Pairs = Float[np.ndarray, "n pairs"]

# Time parameterisations: the time that the step from one layer to the next takes, given the cosine of the two.
TIME_PARAMETERISATIONS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    # The similarity of a random walk on the sphere is exp(-t) in this one, at any speed.
    "log cosine": lambda cosine: -np.log(np.clip(cosine, LEAST_COSINE, 1.0)),
    # The similarity along a great circle is cos(t) in this one, at any speed.
    "arc length": lambda cosine: np.arccos(np.clip(cosine, -1.0, 1.0)),
}


def pairs_of(matrices: Matrices) -> Pairs:
    """Return the values above the diagonal, one per pair of layers."""
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    return matrices[:, rows, columns]


def layers_between(matrices: Matrices) -> Pairs:
    """Return the number of steps between the two layers of each pair."""
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    return np.broadcast_to((columns - rows).astype(float), (len(matrices), len(rows)))


def time_between(matrices: Matrices, parameterisation: str, phases: Phases | None = None) -> Pairs:
    """Return the time between the two layers of each pair in a time parameterisation.

    With phases, all steps inside a phase take the same time, their mean; steps between phases take their own. This is
    the time of a hybrid: a uniform drift inside each phase, with jumps between phases.
    """
    steps = TIME_PARAMETERISATIONS[parameterisation](np.diagonal(matrices, 1, axis1=1, axis2=2))
    for span in () if phases is None else phases.ranges:
        inside = slice(span[0] - 1, span[-1] - 1)  # step i goes from layer i + 1 to layer i + 2
        steps[:, inside] = steps[:, inside].mean(axis=1, keepdims=True) if len(span) > 1 else steps[:, inside]
    times = np.concatenate([np.zeros((len(matrices), 1)), np.cumsum(steps, axis=1)], axis=1)
    rows, columns = np.triu_indices(matrices.shape[-1], 1)
    return times[:, columns] - times[:, rows]


# The grid where the search starts (rate in units of 1 / longest time, and shape), and its refinement.
_PACES, _SHAPES = np.geomspace(0.05, 30, 18), np.geomspace(0.3, 8, 9)
_STEPS, _NUDGE = 20, 1e-4
_LOWEST, _HIGHEST = np.log([1e-3, 0.1]), np.log([100.0, 20.0])


def _project(
    points: Float[np.ndarray, "n tried 2"], log_times: Pairs, target: Pairs
) -> tuple[Float[np.ndarray, "n tried pairs"], Float[np.ndarray, "n tried"]]:
    """Return the best centred function for given logarithms of a and b, and its squared error."""
    # The exponent is bounded so that nothing overflows: exp(-exp(6)) is already zero.
    exponent = np.exp(points[..., 1:]) * (log_times[:, None] + points[..., :1])
    decay = np.exp(-np.exp(np.minimum(exponent, 6.0)))
    decay -= decay.mean(axis=2, keepdims=True)
    power = np.einsum("ngp,ngp->ng", decay, decay)
    height = np.einsum("ngp,np->ng", decay, target) / np.maximum(power, 1e-300)
    decay *= np.maximum(height, 0)[..., None]  # similarity never grows with time
    return decay, np.sum((target[:, None] - decay) ** 2, axis=2)


def fit_drift(times: Pairs, similarities: Pairs) -> Pairs:
    """Fit the drift function to each row by least squares; return the fitted values.

    Given a and b, the function is linear in the other parameters, which have a closed form (variable projection). The
    search for a and b starts on a grid and continues from its best point with Levenberg-Marquardt steps.
    """
    longest = np.maximum(times.max(axis=1, keepdims=True), 1e-12)
    log_times = np.log(np.maximum(times / longest, 1e-12))
    mean = similarities.mean(axis=1, keepdims=True)
    target = similarities - mean
    rows = np.arange(len(times))

    grid = np.log(np.stack(np.meshgrid(_PACES, _SHAPES, indexing="ij"), axis=-1).reshape(1, -1, 2))
    _, left = _project(np.broadcast_to(grid, (len(times), *grid.shape[1:])), log_times, target)
    point, error = grid[0, left.argmin(axis=1)], left.min(axis=1)
    damping = np.full(len(times), 1e-3)
    nudges = np.concatenate([np.zeros((1, 2)), _NUDGE * np.eye(2)])
    for _ in range(_STEPS):
        curves, _ = _project(point[:, None] + nudges, log_times, target)
        slopes = (curves[:, 1:] - curves[:, :1]) / _NUDGE
        normal = np.einsum("nip,njp->nij", slopes, slopes)
        pull = np.einsum("nip,np->ni", slopes, target - curves[:, 0])
        # Damping in proportion to each parameter's own effect, and never zero, so that the system can be solved.
        effect = np.einsum("nii->ni", normal)
        normal[:, [0, 1], [0, 1]] += damping[:, None] * effect + 1e-12
        step = np.clip(np.linalg.solve(normal, pull[..., None])[..., 0], -1, 1)
        tried = np.clip(point + step, _LOWEST, _HIGHEST)
        left = _project(tried[:, None], log_times, target)[1][rows, 0]
        better = left < error
        point, error = np.where(better[:, None], tried, point), np.where(better, left, error)
        damping *= np.where(better, 0.2, 5.0)
    return mean + _project(point[:, None], log_times, target)[0][:, 0]
