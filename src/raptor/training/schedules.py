"""Schedules: pure functions of the step, so that a resumed run needs no state of theirs."""

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
