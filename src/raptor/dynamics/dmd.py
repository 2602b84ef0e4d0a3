"""Dynamic mode decomposition: depth as one linear map, of group means on the unit sphere (appendix D)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from raptor.device import doubled
from raptor.dynamics.motion import Motion
from raptor.errors import MatrixError
from raptor.resampling import BinnedMean

RANK = 10  # the paper's
SINGULAR = 32  # singular values that are shown


@dataclass(frozen=True)
class Modes:
    """A linear map of rank r that takes states to those of the next layer.

    Parameters
    ----------
    eigenvalues, modes
        Of the map; modes are columns.
    singular
        All singular values of the states that it was fitted to, largest first.
    operator, basis
        The map is operator basis^T; the columns of the basis are orthonormal and span the states.
    start
        The mean state at the first layer.
    """

    eigenvalues: Complex[Tensor, " rank"]
    modes: Complex[Tensor, "width rank"]
    singular: Float[Tensor, " values"]
    operator: Float[Tensor, "width rank"]
    basis: Float[Tensor, "width rank"]
    start: Float[Tensor, " width"]

    @property
    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue."""
        return self.eigenvalues.abs().max().item()

    @property
    def median_modulus(self) -> float:
        """The median modulus."""
        return self.eigenvalues.abs().median().item()

    def amplitudes(self) -> Complex[Tensor, " rank"]:
        """Return how much of each mode is in the mean state at the first layer."""
        # On a CPU the default pivots by memory that nobody set: its last digits change from call to call.
        driver = "gelsd" if self.modes.device.type == "cpu" else None
        return torch.linalg.lstsq(self.modes, self.start.to(self.modes.dtype)[:, None], driver=driver).solution[:, 0]

    def step(self, states: Float[Tensor, "states width"]) -> Float[Tensor, "states width"]:
        """Predict the states of the next layer."""
        return states @ self.basis @ self.operator.T


def fit(
    before: Float[Tensor, "width pairs"],
    after: Float[Tensor, "width pairs"],
    rank: int = RANK,
    rounding: float | None = None,
) -> Modes:
    """Return the exact DMD of pairs of states, at most of their numerical rank: more would be invented.

    `rounding` is that of the numbers that the states come from; by default that of their own kind.
    """
    rounding = torch.finfo(before.dtype).eps if rounding is None else rounding
    before, after = doubled(before), doubled(after)
    if not (before.isfinite().all() and after.isfinite().all()):
        raise MatrixError("states are not finite at some layer, so that no map can be fitted: check the weights")
    u, s, vh = torch.linalg.svd(before, full_matrices=False)
    kept = min(rank, int((s > s[0] * max(before.shape) * rounding).sum()))
    basis = u[:, :kept]
    return _modes(basis, after @ (vh[:kept].T / s[:kept]), s, before[:, 0])


def _modes(basis: Tensor, operator: Tensor, singular: Tensor, start: Tensor) -> Modes:
    eigenvalues, vectors = torch.linalg.eig(basis.T @ operator)
    order = eigenvalues.abs().argsort(descending=True)
    modes = operator.to(vectors.dtype) @ vectors[:, order]
    return Modes(eigenvalues[order], modes, singular, operator, basis, start)


class PooledDMD:
    """One map for all images: sums of outer products stream, so that any number of images takes the memory of one.

    Parameters
    ----------
    rank
        Of the map, at most.
    normalised
        Whether group means are put on the unit sphere at every layer.
    """

    def __init__(self, rank: int = RANK, normalised: bool = True):
        self.rank, self.normalised = rank, normalised
        self.sums: dict[str, list[Tensor]] = {}
        self.n, self.rounding = 0, 0.0

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        for group in motion.layout.slices:
            states = (motion.unit_means if self.normalised else motion.group_means)[group]
            before, after = states[:, :-1].flatten(0, 1), states[:, 1:].flatten(0, 1)
            new = [before.T @ before, after.T @ before, states[:, 0].sum(dim=0)]
            old = self.sums.get(group)
            self.sums[group] = new if old is None else [one + other for one, other in zip(old, new, strict=True)]
        self.n += motion.n
        self.rounding = motion.rounding

    def result(self) -> dict[str, Modes]:
        """Return the map of each group."""
        return {group: self._fit(*sums) for group, sums in self.sums.items()}

    def _fit(
        self, own: Float[Tensor, "width width"], across: Float[Tensor, "width width"], start: Float[Tensor, " width"]
    ) -> Modes:
        squares, vectors = torch.linalg.eigh(own)
        squares, vectors = squares.flip(0).clamp(min=0), vectors.flip(1)
        # Singular values below rounding of the states, and squares below that of their sums, are not told from zero.
        width = len(squares)
        least = max((width * self.rounding) ** 2, width * torch.finfo(squares.dtype).eps)
        kept = min(self.rank, int((squares > squares[0] * least).sum()))
        basis = vectors[:, :kept]
        return _modes(basis, across @ (basis / squares[:kept]), squares.sqrt(), start / self.n)


class DMDError:
    """How far a map is off on images that it was not fitted to: relative error of one step, and of t from layer 0 on.

    Parameters
    ----------
    modes
        By group, fitted to group means on the unit sphere.
    """

    def __init__(self, modes: dict[str, Modes]):
        self.modes = modes
        self.one: dict[str, BinnedMean] = {}
        self.many: dict[str, BinnedMean] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        for group, modes in self.modes.items():
            states = motion.unit_means[group]
            size = states[:, 1:].norm(dim=-1)
            once = modes.step(states[:, :-1].flatten(0, 1)).unflatten(0, (len(states), -1))
            rolled, again = [], states[:, 0]
            for _ in range(states.shape[1] - 1):
                again = modes.step(again)
                rolled.append(again)
            for means, found in ((self.one, once), (self.many, torch.stack(rolled, dim=1))):
                error = (found - states[:, 1:]).norm(dim=-1) / size
                means.setdefault(group, BinnedMean()).add(error)
