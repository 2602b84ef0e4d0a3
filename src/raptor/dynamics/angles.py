"""Angles between directions."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def angle(x: Float[Tensor, "*shape width"], y: Float[Tensor, "*shape width"]) -> Float[Tensor, " *shape"]:
    """Return the angle between unit vectors in radians.

    The formula keeps small angles, which arccos loses in single precision.
    """
    return 2 * torch.atan2((x - y).norm(dim=-1), (x + y).norm(dim=-1))


def angle_apart(
    distance: Float[Tensor, " *shape"], one: Float[Tensor, " *shape"], other: Float[Tensor, " *shape"]
) -> Float[Tensor, " *shape"]:
    """Return the angle between two vectors of length 1 or 0 in radians, given their distance.

    Parameters
    ----------
    distance
        |x - y|.
    one, other
        Norms that the vectors had before they were normalised: a vector of norm 0 still has length 0.
    """
    # |x + y|^2 = 2 |x|^2 + 2 |y|^2 - |x - y|^2
    sums = 2 * ((one > 0).to(distance) + (other > 0).to(distance)) - distance.square()
    return 2 * torch.atan2(distance, sums.clamp(min=0).sqrt())
