"""What measuring the dynamics of depth costs beside the forward pass that it needs."""

from __future__ import annotations

import torch

from raptor.benchmarks.rollout import dinov2_small
from raptor.core.batches import Batch, BatchList
from raptor.dynamics.one_pass import Pooled
from raptor.runtime.malloc import keep_freed_memory
from raptor.runtime.timing import Ratio, compare

BATCHES = 8  # of four images in either half: fits between the halves cost the same for any number


def dynamics_against_forward() -> Ratio:
    """Norms, convergence, speed, paths and basins, ranks and coherence, DMD: all in one pass, against the bare pass.

    Intervals and fits of single images are made after it. They cost the same for any number of images: not in it.
    """
    keep_freed_memory()  # as the command does
    own, teacher, pixels = dinov2_small()
    batch = Batch(pixels, torch.arange(len(pixels)) % 2, None, None, [""] * len(pixels))
    half = BatchList([batch] * BATCHES)

    def ours() -> None:
        Pooled(labelled=True).run(teacher, (half, half))

    def theirs() -> None:
        with torch.no_grad():
            for _ in range(2 * BATCHES):
                own(pixels)

    return compare("dynamics of DINOv2-S against its own forward pass", ours, theirs, limit=1.25, rounds=7)
