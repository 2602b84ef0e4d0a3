"""Distance between linear maps up to a change of coordinates: Dynamical Similarity Analysis (Ostrow et al. 2023).

Two models have the same dynamics if one map is the other in rotated coordinates. The distance is the smallest
|A - C B C^T| over orthogonal C, relative to the mean size of A and B: 0 for the same dynamics.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.dynamics.dmd.pooled import Modes

STARTS = 32  # random coordinates to start from, beside those that align the symmetric parts
STEPS, POLISHED = (
    60,
    4,
)  # iterations of L-BFGS for all starts together, and how many of the best are then continued alone
Operator = Float[Tensor, "rank rank"]


def reduced(modes: Modes) -> Operator:
    """Return the map in the coordinates of its own basis."""
    return modes.basis.T @ modes.operator


def operator_distance(one: Float[Tensor, "m m"], other: Float[Tensor, "n n"], seed: int = 0) -> float:
    """Return the distance of two maps up to an orthogonal change of coordinates.

    Parameters
    ----------
    one, other, seed
        As in `nearest_coordinates`.
    """
    return nearest_coordinates(one, other, seed)[0]


def nearest_coordinates(
    one: Float[Tensor, "m m"], other: Float[Tensor, "n n"], seed: int = 0
) -> tuple[float, Float[Tensor, "size size"]]:
    """Return the distance of two maps up to an orthogonal change of coordinates, and that change.

    Parameters
    ----------
    one, other
        Square matrices; the smaller one is padded with zeros.
    seed
        Seed of the coordinates that the search starts from.
    """
    a, b, scale = _prepared(one, other)
    size = len(a)
    if not scale:
        return 0.0, torch.eye(size, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.linalg.qr(torch.randn(STARTS, size, size, generator=generator, dtype=torch.float64))[0]
    identity = torch.eye(size, dtype=torch.float64)
    flipped = identity.clone()
    flipped[0, 0] = -1  # both kinds of orthogonal maps: steps from one never reach the other
    starts = torch.stack([aligned(a, b), identity, *drawn])
    errors, found = _descend(a, b, torch.cat([starts, starts @ flipped]))
    polished = [_descend(a, b, found[one : one + 1]) for one in errors.argsort()[:POLISHED]]
    error, turn = min(polished, key=lambda one: float(one[0]))
    return float(error.clamp(min=0).sqrt() / scale), turn[0]


def distance_from(one: Float[Tensor, "m m"], other: Float[Tensor, "n n"], start: Float[Tensor, "size size"]) -> float:
    """Return the distance that the search reaches from given coordinates alone; see `nearest_coordinates`."""
    a, b, scale = _prepared(one, other, len(start))
    return float(_descend(a, b, start[None])[0].clamp(min=0).sqrt() / scale) if scale else 0.0


def _prepared(one: Tensor, other: Tensor, least: int = 0) -> tuple[Operator, Operator, float]:
    """Return two maps of the same size in double precision, and the mean of their norms."""
    size = max(len(one), len(other), least)
    a, b = (_padded(matrix.double(), size) for matrix in (one, other))
    return a, b, float(a.norm() + b.norm()) / 2


def _padded(matrix: Tensor, size: int) -> Operator:
    whole = matrix.new_zeros(size, size)
    whole[: len(matrix), : len(matrix)] = matrix
    return whole


def aligned(a: Operator, b: Operator) -> Operator:
    """Return coordinates that align the axes of the symmetric parts, with the signs that fit the other parts best.

    If b is a in rotated coordinates, and the symmetric part has distinct eigenvalues, they align both exactly.
    """
    axes, turned = [], []
    for matrix in (a, b):
        vectors = torch.linalg.eigh(matrix + matrix.T)[1]
        axes.append(vectors)
        turned.append(vectors.T @ (matrix - matrix.T) @ vectors)
    agreement = turned[0] * turned[1]
    signs = torch.linalg.eigh(agreement)[1][:, -1].sign()
    signs = torch.where(signs == 0, torch.ones_like(signs), signs)
    return axes[0] * signs @ axes[1].T


def _descend(
    a: Operator, b: Operator, starts: Float[Tensor, "starts rank rank"]
) -> tuple[Float[Tensor, " starts"], Float[Tensor, "starts rank rank"]]:
    """Return the squared distances that L-BFGS reaches from some coordinates, and the coordinates there."""
    identity = torch.eye(len(a), dtype=a.dtype)
    with torch.enable_grad():
        free = torch.zeros_like(starts, requires_grad=True)
        search = torch.optim.LBFGS(
            [free], max_iter=STEPS, history_size=20, line_search_fn="strong_wolfe", tolerance_grad=1e-12,
            tolerance_change=1e-14,
        )  # fmt: skip

        def turned() -> Tensor:
            skew = free - free.mT
            return torch.linalg.solve(identity + skew, identity - skew) @ starts  # Cayley's map to rotations

        def errors() -> Tensor:
            turn = turned()
            return (a - turn @ b @ turn.mT).square().sum(dim=(-2, -1))

        def closure() -> Tensor:
            search.zero_grad()
            value = errors().sum()
            value.backward()
            return value

        search.step(closure)
        return errors().detach(), turned().detach()
