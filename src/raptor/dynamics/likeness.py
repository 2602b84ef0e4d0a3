"""Is a surrogate the same system as its teacher? Distances between their curves, beside those between two seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from raptor.dynamics.perturbation import SHOWN
from raptor.dynamics.survey import Dynamics


@dataclass(frozen=True)
class Distance:
    """How far two curves are apart.

    Parameters
    ----------
    mean, most
        Of the absolute difference over layers.
    relative
        Mean difference over the range of the first curve; not a number where that is flat.
    """

    mean: float
    most: float
    relative: float


def distances(one: Dynamics, other: Dynamics) -> dict[str, dict[str, Distance]]:
    """Return, by measure and token group, how far two flows of the same depth and tokens are apart."""
    found: dict[str, dict[str, Distance]] = {}
    theirs = _curves(other)
    for name, groups in _curves(one).items():
        found[name] = {group: _distance(values, theirs[name][group]) for group, values in groups.items()}
    return found


def _curves(flow: Dynamics) -> dict[str, dict[str, list[float]]]:
    """Return all that can be laid side by side, a number for each layer, step or mode."""
    curves = {name: values.mean for name, values in flow.curves.items()}
    at = flow.pushed.epsilons.index(SHOWN)
    curves["sensitivity"] = {
        group: flow.pushed.sensitivity((group, group))["over_square"][:, at].tolist() for group in flow.modes
    }
    # Moduli, since the angles of conjugate pairs have no order.
    curves["dmd_modulus"] = {group: modes.eigenvalues.abs().tolist() for group, modes in flow.modes.items()}
    if flow.basins:
        for name in ("within", "between", "nearest"):
            curves[name] = {group: getattr(basins, name) for group, basins in flow.basins.items()}
    return curves


def _distance(one: list[float], other: list[float]) -> Distance:
    n = min(len(one), len(other))  # maps of two flows may differ in rank
    first, gap = np.array(one[:n]), np.abs(np.array(one[:n]) - np.array(other[:n]))
    extent = float(first.max() - first.min())
    mean = float(gap.mean())
    flat = extent <= 1e-6 * float(np.abs(first).max())
    return Distance(mean, float(gap.max()), math.nan if flat else mean / extent)
