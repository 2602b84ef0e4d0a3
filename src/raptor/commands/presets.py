"""How much of everything the whole pipeline does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Sizes of the stages of `raptor run`.

    Parameters
    ----------
    images
        That phases, fidelity and dynamics are measured on.
    steps, batch_size
        Of each stage of the distillation.
    pushed, stretched
        Images that are pushed off their trajectories, and whose exponents are measured.
    changed, orders
        Images, and orders of either kind, of the experiments on layers.
    probed, probe_seeds, probe_epochs
        Images and seeds of linear probes; passes, or None for the tasks' own.
    filmed
        Images of the depth film.
    """

    images: int
    steps: int
    batch_size: int
    pushed: int
    stretched: int
    changed: int
    orders: int
    probed: int
    probe_seeds: tuple[int, ...]
    probe_epochs: float | None
    filmed: int


PRESETS = {
    "quick": Preset(256, 30, 16, 4, 1, 32, 2, 512, (0,), 4.0, 4),
    "standard": Preset(1000, 500, 32, 32, 4, 500, 3, 2000, (0, 1, 2), None, 6),
    "full": Preset(5000, 5000, 64, 64, 8, 1000, 3, 10_000, (0, 1, 2), None, 8),
}
