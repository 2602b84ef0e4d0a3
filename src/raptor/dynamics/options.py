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
    mixing_pairs
        Number of pairs of images whose states are mixed.
    coupling_images
        Number of images whose Jacobians are compared between layers; 0 leaves them out.
    seed
        Seed of perturbations and of the bootstrap over images.
    """

    beyond: bool | None = None
    perturbation_images: int = 16
    lyapunov_images: int = 4
    mixing_pairs: int = 24
    coupling_images: int = 2
    seed: int = 0
