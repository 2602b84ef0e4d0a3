"""Layer-layer similarity matrices from outside: reading and checking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from raptor.errors import MatrixError, one_line

MOST_LAYERS = 1000
SYMMETRIC = 1e-4  # tolerance: published matrices are rounded
LARGEST = 100_000_000  # bytes of a matrix file


def read_matrix(file: Path) -> NDArray[Any]:
    """Read a csv file: numbers separated by commas, one row of the matrix per line."""
    try:
        if file.exists() and not file.is_file():
            raise ValueError("it is not a regular file")  # reading a pipe would block
        if file.stat().st_size > LARGEST:
            raise MatrixError(f"{str(file)!r} has {file.stat().st_size:,} bytes: too large for a layer-layer matrix")
        rows = [line.split(",") for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        if len({len(row) for row in rows}) != 1:
            raise MatrixError(f"the rows of {str(file)!r} differ in length: a matrix is layers x layers")
        return np.array([[float(value) for value in row] for row in rows])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        raise MatrixError(
            f"cannot read a matrix of numbers separated by commas from {str(file)!r}: {reason}"
        ) from error


def as_matrices(given: Any) -> Float[np.ndarray, "n layers layers"]:
    """Return one matrix (layers, layers) or several (n, layers, layers) as a batch, made exactly symmetric."""
    matrices = np.asarray(given, dtype=float)
    matrices = matrices[None] if matrices.ndim == 2 else matrices
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.size == 0:
        raise MatrixError(f"a similarity matrix is square (layers, layers), not of shape {np.shape(given)}")
    if matrices.shape[1] > MOST_LAYERS:
        raise MatrixError(f"a similarity matrix has at most {MOST_LAYERS} layers, not {matrices.shape[1]}")
    if not np.isfinite(matrices).all():
        raise MatrixError("this similarity matrix has NaN or infinity: all values must be finite")
    turned = matrices.transpose(0, 2, 1)
    if np.abs(matrices - turned).max() > SYMMETRIC * max(1.0, np.abs(matrices).max()):
        raise MatrixError("this similarity matrix is not symmetric")
    return (matrices + turned) / 2


def is_similarity(matrix: NDArray[Any]) -> bool:
    """Whether a matrix can be a similarity between the layers 1..L."""
    try:
        check_cosines(as_matrices(matrix)[0])
    except MatrixError:
        return False
    return True


def check_cosines(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return a matrix of the layers 1..L if its values can be cosines; raise otherwise."""
    if len(matrix) < 2:
        raise MatrixError(f"similarity is between layers: at least two are needed, not {len(matrix)}")
    if np.abs(matrix).max() > 1 + 1e-6:
        raise MatrixError(
            f"similarities are cosines in [-1, 1], but this matrix has values from {matrix.min():.3g} to "
            f"{matrix.max():.3g}"
        )
    if np.abs(np.diagonal(matrix) - 1).max() > 1e-3:
        raise MatrixError("the similarity of a layer to itself is 1, but the diagonal of this matrix is not 1")
    return matrix
