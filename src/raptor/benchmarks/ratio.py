"""How much longer one thing takes than another, on a noisy machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A comparison: median seconds of both sides, their ratio, and what it may be at most."""

    name: str
    ours: float
    theirs: float
    limit: float
    rounds: int

    @property
    def ratio(self) -> float:
        """How many times longer ours takes."""
        return self.ours / self.theirs

    @property
    def ok(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.ratio <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "MISSED"
        return (
            f"{self.name}: {self.ratio:.3f}x (at most {self.limit}x: {verdict}); medians of {self.rounds} alternating "
            f"rounds: {self.ours * 1e3:.1f} ms against {self.theirs * 1e3:.1f} ms"
        )


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], limit: float, rounds: int = 15
) -> Ratio:
    """Time both sides in turn, which goes first changing every round, after one unmeasured round."""
    ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for index in range(rounds):
        for side in (0, 1) if index % 2 else (1, 0):
            times[side].append(_seconds((ours, theirs)[side]))
    return Ratio(name, statistics.median(times[0]), statistics.median(times[1]), limit, rounds)
