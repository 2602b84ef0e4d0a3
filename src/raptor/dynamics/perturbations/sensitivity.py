"""Results of perturbations: how sensitive the last layer is to them, and how tokens return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from numpy.typing import NDArray

from raptor.core.estimate import Estimate
from raptor.core.serialize import Key, key

SHOWN = 0.1  # size of perturbations that figures and sentences show


@dataclass(frozen=True)
class Perturbations:
    """Which perturbations were applied.

    Parameters
    ----------
    layers
        Layers at which tokens were perturbed, 0..L-1.
    epsilons
        Sizes of the perturbations, relative to each token's norm.
    draws
        Number of random directions per size.
    images
        Number of images.
    """

    layers: list[int]
    epsilons: list[float]
    draws: int
    images: int


@dataclass(frozen=True)
class PairSensitivity:
    """Deviation 1 - cosine of a token group at the last layer, by perturbed layer and size, of one perturbed group.

    Parameters
    ----------
    over_epsilon, over_square
        Mean deviation divided by epsilon, and by its square. The deviation is quadratic for small epsilon: the first
        falls with epsilon, the second does not.
    passive
        The deviation over epsilon of a perturbation that is carried along unchanged by the residual stream; None for
        groups that were not perturbed.
    """

    over_epsilon: Estimate[list[list[float]]]
    over_square: list[list[float]]
    passive: list[list[float]] | None = None


@dataclass(frozen=True)
class Sensitivity(Perturbations):
    """Sensitivity of the last layer to perturbations; `by_pair` is keyed by `perturbed group->read group`."""

    by_pair: Annotated[dict[str, PairSensitivity], Key(inline=True)]

    def shown(self, group: str) -> list[float]:
        """Return, by perturbed layer, the deviation of the perturbed group over 0.1 squared."""
        at = self.epsilons.index(SHOWN)
        return [row[at] for row in self.by_pair[f"{group}->{group}"].over_square]


@dataclass(frozen=True)
class GroupCorrection:
    """How a perturbed token group returns to its trajectory, by perturbed layer and size.

    Parameters
    ----------
    slope
        Slope of the logarithm of the mean angle per layer after the perturbation; negative if the group returns. NaN
        where fewer than two layers follow.
    return_time
        Number of layers until the mean angle is halved; infinite if it never is.
    return_time_and_gamma, return_time_and_gamma_p, return_time_and_gamma_layers
        By size: Spearman correlation of the return time with gamma at the perturbed layer, its p-value, and the number
        of layers. Layers from which the angle never halves are excluded, because late ones have no time for it.
    passive_slope, passive_return_time
        The same for a perturbation that is carried along unchanged. It shrinks in angle too, as the norm grows.
    final_ratio
        Angle at the last layer over that of a perturbation that is carried along: below 1 the layers correct it.
    angle, passive_angle
        Mean angle to the unperturbed state in radians, by perturbed layer, size, and layers after it (0..L; 0 beyond
        the last layer). Not in result.json.
    """

    slope: Estimate[list[list[float]]]
    return_time: list[list[float]]
    return_time_and_gamma: list[float]
    return_time_and_gamma_p: list[float]
    return_time_and_gamma_layers: list[int]
    passive_slope: list[list[float]] | None = None
    passive_return_time: list[list[float]] | None = None
    final_ratio: Estimate[list[list[float]]] | None = None
    angle: NDArray | None = key(None, skip=True)
    passive_angle: NDArray | None = key(None, skip=True)


@dataclass(frozen=True)
class Correction(Perturbations):
    """Self-correction of each perturbed token group."""

    by_group: Annotated[dict[str, GroupCorrection], Key(inline=True)]
