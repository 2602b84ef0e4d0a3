"""Schedules as pure functions of the step, so that a resumed run needs no state of them."""

from __future__ import annotations

import math


def warmup_cosine(step: int, steps: int, warmup: int, floor: float = 0.0) -> float:
    r"""Return the factor on the peak learning rate at `step` (0-based) of `steps`.

    It rises linearly over `warmup` steps, (step + 1) / warmup, then falls along half a cosine to `floor`:
    floor + (1 - floor) (1 + cos(pi t)) / 2 with t = (step - warmup) / (steps - warmup).
    """
    if step < warmup:
        return (step + 1) / warmup
    t = min(1.0, (step - warmup) / max(1, steps - warmup))
    return floor + (1 - floor) * (1 + math.cos(math.pi * t)) / 2


def annealed(step: int, steps: int, start: float, share: float) -> float:
    """Return a weight that falls linearly from `start` at step 0 to 0 over the first `share` of all steps."""
    return start * max(0.0, 1 - step / (share * steps)) if share > 0 else 0.0
