"""Options of `raptor dynamics`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DynamicsOptions:
    """How the dynamics of a model are measured.

    Parameters
    ----------
    beyond
        Whether to repeat the last step beyond the last layer; None does so for surrogates.
    perturbation_images
        Number of images whose tokens are perturbed.
    lyapunov_images
        Number of images whose Lyapunov exponents are measured.
    seed
        Seed of perturbations and of the bootstrap over images.
    """

    beyond: bool | None = None
    perturbation_images: int = 16
    lyapunov_images: int = 4
    seed: int = 0
