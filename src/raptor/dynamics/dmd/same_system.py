"""Whether two models have the same dynamics: the rule, fixed before any measurement.

The distance between the linear maps of two models, up to a rotation, is averaged over token groups. The null is the
mean distance between the maps of different token groups of the first model: how far apart systems of one model are. Two
models have the same dynamics if the whole 95% jackknife interval of their distance is at most half of the null, and
other dynamics if the whole interval is above that.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from raptor.core.estimate import Estimate
from raptor.dynamics.dmd.distance import Operator, distance_from, nearest_coordinates, reduced
from raptor.dynamics.dmd.pooled import Modes
from raptor.dynamics.jackknife import half_width
from raptor.dynamics.result import SameSystem

SHARE = 0.5  # largest distance of the same system, as a share of the null


Maps = dict[str, list[Modes]]  # by token group: the map, and those without each part of the images in turn


def same_system(one: Maps, other: Maps, n: int, seed: int = 0) -> SameSystem | None:
    """Compare the linear maps of two models; None where they have no token group in common.

    Parameters
    ----------
    one, other
        Linear maps of both.
    n
        Number of images.
    seed
        Seed of the search for the best rotation.
    """
    pairs = [(one[group], other[group]) for group in one if group in other]
    if not pairs:
        return None
    distances, without = [], []
    for (a, *a_parts), (b, *b_parts) in pairs:
        distance, turn = nearest_coordinates(reduced(a), reduced(b), seed)
        distances.append(distance)
        parts = zip(a_parts, b_parts, strict=False)
        without.append(torch.tensor([_near(a, b, turn, x, y) for x, y in parts], dtype=torch.float64))
    value = sum(distances) / len(distances)
    wide = float(half_width(torch.stack(without).mean(dim=0)))
    maps = [reduced(first[0]) for first, _ in pairs]
    apart = [nearest_coordinates(x, y, seed)[0] for x, y in combinations(maps, 2)]
    null = sum(apart) / len(apart) if apart else None
    estimate = Estimate(value, max(0.0, value - wide), value + wide, n)
    return SameSystem(_verdict(estimate, null), estimate, null)


def _verdict(distance: Estimate[float], null: float | None) -> bool | None:
    if null is None or distance.high != distance.high:  # no null, or no interval
        return None
    if distance.high <= SHARE * null:
        return True
    return False if distance.low > SHARE * null else None


def _near(a: Modes, b: Modes, turn: Operator, a_part: Modes, b_part: Modes) -> float:
    """Return the distance of maps without a part of the images, from the rotation that was found for all of them."""
    size = len(turn)
    left, right = _change(a, a_part, size), _change(b, b_part, size)
    u, _, v = torch.linalg.svd(left.T @ turn @ right)
    return distance_from(reduced(a_part), reduced(b_part), u @ v)


def _change(whole: Modes, part: Modes, size: int) -> Tensor:
    """Return the change from the basis of one map to that of another, padded with the identity."""
    change = torch.eye(size, dtype=torch.float64)
    rows, columns = whole.basis.shape[1], part.basis.shape[1]
    change[:rows, :columns] = whole.basis.T @ part.basis
    return change
