"""A number of phases for building a surrogate; it is not evidence that phases exist."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from raptor.errors import MatrixError, OptionError
from raptor.phases.options import AUTO, PhasesOptions
from raptor.phases.segment import check_possible, segment_values
from raptor.phases.solvers import best_suffixes

K_MAX = 12  # largest number of phases that is tried
NEGLIGIBLE = 1e-6  # minimum gain of a boundary, in similarity per layer


def most_phases(layers: int, min_length: int) -> int:
    """Return the largest number of phases that is tried for a number of layers."""
    return max(1, min(K_MAX, layers // min_length))


def useful_k(matrices: Float[np.ndarray, "n layers layers"], min_length: int = 2) -> Int[np.ndarray, " n"]:
    r"""Choose k as the elbow of the cost of the best partitions, with S as the Gram matrix of the layers.

    The cost of the best k segments is C(k) = trace - sum of (sum/n), and g(k) = C(k-1) - C(k) is the gain of the k-th.
    By chance, one more segment gains the noise v of a layer around its segment's mean, estimated by the median of 1 - S
    over consecutive layers. Along a smooth drift it gains as much as later segments do on average, s(k). A segment is
    worth adding where g(k) > 2 max(v, s(k)): by the slope heuristic (Birge and Massart; for kernels Arlot, Celisse and
    Harchaoui 2019), the penalty of a segment is twice the slope of the cost where nothing is left to find. The last
    boundary that is tried has no later ones; it must gain 4 v, since splitting four layers of a uniform drift gains
    3 v.

    Where states drift inside phases, smaller and smaller segments stay worth adding. Among them, k is the elbow: the
    point of the cost curve that lies furthest below the line between its ends (Satopaa et al. 2011, "Kneedle").

    Parameters
    ----------
    matrices
        Similarity matrices of the layers 1..L.
    min_length
        Minimum number of layers in a phase.
    """
    layers = matrices.shape[1]
    most = most_phases(layers, min_length)
    if most == 1:
        return np.ones(len(matrices), dtype=int)
    cost = layers - best_suffixes(segment_values(matrices, "weighted", min_length), most)[1:, :, 0]
    gains = -np.diff(cost, axis=0)  # row j is what segment j + 2 gains
    noise = np.maximum(np.median(1 - np.diagonal(matrices, 1, axis1=1, axis2=2), axis=1), 0.0)
    later = np.cumsum(gains[::-1], axis=0)[::-1][1:] / np.arange(len(gains) - 1, 0, -1)[:, None]
    price = np.concatenate([2 * np.maximum(noise, later), 4 * noise[None]]) + NEGLIGIBLE * layers
    worth = gains > price
    line = cost[0] + (cost[-1] - cost[0]) * np.linspace(0, 1, most)[:, None]
    below = np.where(worth, (line - cost)[1:], -np.inf)
    return np.where(worth.any(axis=0), np.argmax(below, axis=0) + 2, 1)


def elbow(cost: Float[np.ndarray, " k"]) -> int:
    """Return the k at which a falling cost bends: furthest below the line between the costs of 1 and of most phases."""
    line = np.linspace(cost[0], cost[-1], len(cost))
    return int(np.argmax(line - cost)) + 1


def given_k(options: PhasesOptions, layers: int) -> int | None:
    """Return the given number of phases, None for `auto`; raise where it is impossible."""
    if layers < 2:
        raise MatrixError(f"phases need at least two layers, not {layers}")
    if isinstance(options.k, str) and options.k != AUTO:
        raise OptionError(f"k is a number of phases or 'auto', not {options.k!r}")
    check_possible(layers, 1 if isinstance(options.k, str) else options.k, options.min_length)
    return None if isinstance(options.k, str) else int(options.k)
