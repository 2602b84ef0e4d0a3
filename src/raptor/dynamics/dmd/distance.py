"""Distance between linear maps up to a change of coordinates: Dynamical Similarity Analysis (Ostrow et al. 2023).

Two models have the same dynamics if one map is the other in rotated coordinates. The distance is the smallest
|A - C B C^T| over orthogonal C, relative to the mean size of A and B: 0 for the same dynamics.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.dynamics.dmd.pooled import Modes

STARTS = 8  # random coordinates to start from, beside those that align the symmetric parts
STEPS = 60  # iterations of L-BFGS
Operator = Float[Tensor, "rank rank"]


def reduced(modes: Modes) -> Operator:
    """Return the map in the coordinates of its own basis."""
    return modes.basis.T @ modes.operator


def operator_distance(one: Float[Tensor, "m m"], other: Float[Tensor, "n n"], seed: int = 0) -> float:
    """Return the distance of two maps up to an orthogonal change of coordinates.

    Parameters
    ----------
    one, other
        Square matrices; the smaller one is padded with zeros.
    seed
        Seed of the coordinates that the search starts from.
    """
    size = max(len(one), len(other))
    a, b = (_padded(matrix.double(), size) for matrix in (one, other))
    scale = (a.norm() + b.norm()) / 2
    if not scale:
        return 0.0
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.linalg.qr(torch.randn(STARTS, size, size, generator=generator, dtype=torch.float64))[0]
    starts = [aligned(a, b), torch.eye(size, dtype=torch.float64), *drawn]
    flipped = torch.eye(size, dtype=torch.float64)
    flipped[0, 0] = -1  # both kinds of orthogonal maps: steps from one never reach the other
    return min(_descend(a, b, start) for start in [*starts, *(start @ flipped for start in starts[1:])]) / float(scale)


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


def _descend(a: Operator, b: Operator, start: Operator) -> float:
    """Return the smallest distance that L-BFGS finds from some coordinates."""
    with torch.enable_grad():
        angles = torch.zeros_like(a, requires_grad=True)
        search = torch.optim.LBFGS([angles], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-12)

        def loss() -> Tensor:
            turn = torch.linalg.matrix_exp(angles - angles.T) @ start
            return (a - turn @ b @ turn.T).square().sum()

        def closure() -> Tensor:
            search.zero_grad()
            value = loss()
            value.backward()
            return value

        search.step(closure)
        return float(loss().detach().clamp(min=0).sqrt())
