"""How much `raptor run` measures."""

from __future__ import annotations

from dataclasses import dataclass

from raptor.dynamics.options import DynamicsOptions


@dataclass(frozen=True)
class Preset:
    """Sizes of the stages of `raptor run`.

    Parameters
    ----------
    images
        Number of images for phases, fidelity and dynamics.
    steps, batch_size
        Optimiser steps of each stage of the distillation, and images per step; without steps, nothing is trained.
    perturbation_images, lyapunov_images
        Number of images for perturbations and for Lyapunov exponents.
    intervention_images, intervention_orders
        Number of images for layer interventions, and of orders of either kind per experiment.
    probe_images, probe_seeds, probe_epochs
        Number of images and seeds of linear probes, and passes over the images; None for the tasks' own.
    film_images
        Number of images of the depth film.
    function_images
        Number of images on which every block is applied at every layer.
    perturbation_draws, mixing_pairs, coupling_images
        As in `DynamicsOptions`.
    """

    images: int
    steps: int
    batch_size: int
    perturbation_images: int
    lyapunov_images: int
    intervention_images: int
    intervention_orders: int
    probe_images: int
    probe_seeds: tuple[int, ...]
    probe_epochs: float | None
    film_images: int
    function_images: int
    perturbation_draws: int = DynamicsOptions.perturbation_draws
    mixing_pairs: int = DynamicsOptions.mixing_pairs
    coupling_images: int = DynamicsOptions.coupling_images


PRESETS = {
    "quick": Preset(
        images=128, steps=30, batch_size=16, perturbation_images=64, lyapunov_images=0, intervention_images=64,
        intervention_orders=2, probe_images=256, probe_seeds=(0,), probe_epochs=4.0, film_images=4,
        function_images=64, perturbation_draws=1, mixing_pairs=32, coupling_images=0,
    ),
    "standard": Preset(
        images=1000, steps=500, batch_size=32, perturbation_images=32, lyapunov_images=4, intervention_images=500,
        intervention_orders=3, probe_images=2000, probe_seeds=(0, 1, 2), probe_epochs=None, film_images=6,
        function_images=128,
    ),
    "measure": Preset(
        images=1000, steps=0, batch_size=32, perturbation_images=32, lyapunov_images=4, intervention_images=500,
        intervention_orders=3, probe_images=1000, probe_seeds=(0, 1, 2), probe_epochs=None, film_images=6,
        function_images=128,
    ),
    "full": Preset(
        images=5000, steps=5000, batch_size=64, perturbation_images=64, lyapunov_images=8, intervention_images=1000,
        intervention_orders=3, probe_images=10_000, probe_seeds=(0, 1, 2), probe_epochs=None, film_images=8,
        function_images=256,
    ),
}  # fmt: skip
