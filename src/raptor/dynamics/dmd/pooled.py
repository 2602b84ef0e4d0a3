"""Dynamic mode decomposition (DMD): one linear map for all layers, fitted to unit group means (appendix D)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.dynamics.jackknife import n_parts, n_used, part_of
from raptor.dynamics.measures import StateBatch
from raptor.errors import MatrixError
from raptor.runtime.device import doubled

RANK = 10  # as in the paper


@dataclass(frozen=True)
class Modes:
    """A linear map of rank r from the states at one layer to those at the next.

    Parameters
    ----------
    eigenvalues, modes
        Eigenvalues of the map, by decreasing modulus, and its modes as columns.
    singular
        All singular values of the states that it was fitted to, largest first.
    operator, basis
        The map is operator basis^T; the columns of the basis are orthonormal and span the states.
    start
        Mean state at the first layer.
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
        """The median modulus of the eigenvalues."""
        return self.eigenvalues.abs().quantile(0.5).item()  # torch.median is the lower of two middle values

    def amplitudes(self) -> Complex[Tensor, " rank"]:
        """Return the coefficient of each mode in the mean state at the first layer."""
        # On a CPU the default driver reads uninitialised memory: its last digits change from call to call.
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
    """Fit exact DMD to pairs of states.

    Parameters
    ----------
    before, after
        States at one layer and at the next, one pair per column.
    rank
        Maximum rank of the map; it is never above the numerical rank of the states.
    rounding
        Relative rounding error of the states; that of their data type by default.
    """
    rounding = torch.finfo(before.dtype).eps if rounding is None else rounding
    before, after = doubled(before), doubled(after)
    if not (before.isfinite().all() and after.isfinite().all()):
        raise MatrixError(
            "the states are not finite at some layer, so no linear map can be fitted: check the model's weights"
        )
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
    """One linear map for all images, from sums of outer products: memory does not grow with the number of images.

    Parameters
    ----------
    rank
        Maximum rank of the map.
    normalised
        Whether to normalise group means to length 1 at every layer.
    """

    def __init__(self, rank: int = RANK, normalised: bool = True):
        self.rank, self.normalised = rank, normalised
        self.sums: dict[str, list[Tensor]] = {}  # each with one entry per part of the images
        self.n, self.parts, self.rounding = 0, 0, 0.0

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        width = batch.states[0].shape[-1]
        self.parts = self.parts or n_parts(16 * len(batch.layout.slices) * width**2)
        part = part_of(self.n, batch.n, self.parts)
        for group in batch.layout.slices:
            states = (batch.unit_means if self.normalised else batch.group_means)[group]
            states = states[:, : batch.last[group] + 1]
            if group not in self.sums:
                shapes = ((width, width), (width, width), (width,), ())
                self.sums[group] = [torch.zeros(self.parts, *shape, dtype=states.dtype) for shape in shapes]
            for number in part.unique().tolist():
                own = states[part == number]
                before, after = own[:, :-1].flatten(0, 1), own[:, 1:].flatten(0, 1)
                new = (before.T @ before, after.T @ before, own[:, 0].sum(dim=0), torch.tensor(float(len(own))))
                for total, more in zip(self.sums[group], new, strict=True):
                    total[number] += more
        self.n += batch.n
        self.rounding = batch.rounding

    def compute(self) -> dict[str, Modes]:
        """Return the map of each token group."""
        return {group: self._fit(*(one.sum(dim=0) for one in sums)) for group, sums in self.sums.items()}

    def without(self) -> list[dict[str, Modes]]:
        """Return the maps that are fitted without each part of the images in turn, for a jackknife."""
        return [
            {group: self._fit(*(one.sum(dim=0) - one[part] for one in sums)) for group, sums in self.sums.items()}
            for part in range(n_used(self.n, self.parts))
        ]

    def _fit(
        self,
        own: Float[Tensor, "width width"],
        across: Float[Tensor, "width width"],
        start: Float[Tensor, " width"],
        n: Float[Tensor, ""],
    ) -> Modes:
        squares, vectors = torch.linalg.eigh(own)
        squares, vectors = squares.flip(0).clamp(min=0), vectors.flip(1)
        # Singular values below the rounding error of the states, and squares below that of their sums, count as zero.
        width = len(squares)
        least = max((width * self.rounding) ** 2, width * torch.finfo(squares.dtype).eps)
        kept = min(self.rank, int((squares > squares[0] * least).sum()))
        basis = vectors[:, :kept]
        return _modes(basis, across @ (basis / squares[:kept]), squares.sqrt(), start / n)


class DMDError:
    """Relative errors of a map on images that it was not fitted to: of one step, and of a rollout from layer 0.

    Parameters
    ----------
    modes
        Maps by token group, fitted to unit group means.
    """

    def __init__(self, modes: dict[str, Modes]):
        self.modes = modes
        self.one_step: dict[str, BinnedMean] = {}
        self.rollout: dict[str, BinnedMean] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        for group, modes in self.modes.items():
            states = batch.unit_means[group][:, : batch.last[group] + 1]
            size = states[:, 1:].norm(dim=-1)
            once = modes.step(states[:, :-1].flatten(0, 1)).unflatten(0, (len(states), -1))
            rolled, again = [], states[:, 0]
            for _ in range(states.shape[1] - 1):
                again = modes.step(again)
                rolled.append(again)
            for means, found in ((self.one_step, once), (self.rollout, torch.stack(rolled, dim=1))):
                error = (found - states[:, 1:]).norm(dim=-1) / size
                means.setdefault(group, BinnedMean()).add(error)
