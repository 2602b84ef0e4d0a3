"""What a layer-layer similarity matrix must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from raptor.errors import MatrixError

MOST_LAYERS = 1000
SYMMETRIC = 1e-4  # published matrices are rounded


def as_matrices(given: Any) -> Float[np.ndarray, "n layers layers"]:
    """Return one matrix or a batch of them as a batch, exactly symmetric; say what is wrong with it otherwise."""
    matrices = np.asarray(given, dtype=float)
    matrices = matrices[None] if matrices.ndim == 2 else matrices
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.size == 0:
        raise MatrixError(f"a similarity matrix is square, layers x layers, not of shape {np.shape(given)}")
    if matrices.shape[1] > MOST_LAYERS:
        raise MatrixError(f"a similarity matrix has at most {MOST_LAYERS} layers, not {matrices.shape[1]}")
    if not np.isfinite(matrices).all():
        raise MatrixError("a similarity matrix has numbers only, but this one has NaN or infinity")
    turned = matrices.transpose(0, 2, 1)
    if np.abs(matrices - turned).max() > SYMMETRIC * max(1.0, np.abs(matrices).max()):
        raise MatrixError("a similarity matrix is symmetric, but this one is not")
    return (matrices + turned) / 2


def check_cosines(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return a matrix of the layers 1..L if it can be one of cosines."""
    if len(matrix) < 2:
        raise MatrixError(f"similarity is between layers: at least two are needed, not {len(matrix)}")
    if np.abs(matrix).max() > 1 + 1e-6:
        raise MatrixError(
            f"similarities are cosines in [-1, 1], but this matrix has values from {matrix.min():.3g} to "
            f"{matrix.max():.3g}"
        )
    if np.abs(np.diagonal(matrix) - 1).max() > 1e-3:
        raise MatrixError("a layer's similarity to itself is 1, but the diagonal of this matrix is not")
    return matrix
