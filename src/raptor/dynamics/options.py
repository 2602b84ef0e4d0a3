"""Options of `raptor dynamics`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from raptor.core.options import Option
from raptor.runtime.options import TOGETHER, Outliers, check_outliers


@dataclass(frozen=True)
class DynamicsOptions:
    """How the dynamics of a model are measured.

    Parameters
    ----------
    beyond
        Whether to repeat the last step beyond the last layer; None does so for surrogates.
    perturbation_images
        Number of images whose tokens are perturbed.
    perturbation_draws
        Number of random perturbations of each size, per image and layer.
    lyapunov_images
        Number of images whose Lyapunov exponents are measured; 0 leaves them out.
    mixing_pairs
        Number of pairs of images whose states are mixed.
    coupling_images
        Number of images whose Jacobians are compared between layers; 0 leaves them out.
    outliers
        `together` or `separate`: whether patches with massive activations are a token group of their own, `outlier`.
    seed
        Seed of perturbations and of the bootstrap over images.
    """

    beyond: bool | None = None
    perturbation_images: Annotated[int, Option("Number of images for the perturbation experiments.", min=1)] = 16
    perturbation_draws: Annotated[
        int, Option("Number of random perturbations of each size, for each image and layer.", min=1)
    ] = 2
    lyapunov_images: Annotated[int, Option("Number of images for the Lyapunov exponents; 0 skips them.", min=0)] = 4
    mixing_pairs: Annotated[
        int, Option("Number of image pairs for the mixing experiment, which averages the tokens of two images.", min=1)
    ] = 24
    coupling_images: Annotated[
        int,
        Option("Number of images for comparing the Jacobians of different layers; 0 skips this.", min=0),
    ] = 2
    outliers: Outliers = TOGETHER
    seed: int = 0

    def __post_init__(self) -> None:
        check_outliers(self.outliers)
