"""Ratios of run time and of peak memory, measured in alternating rounds."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# For each unit of measurement: the unit in which it is printed, and the factor between them.
SHOWN = {"s": ("ms", 1e3), "bytes": ("MB", 1e-6)}


@dataclass(frozen=True)
class Ratio:
    """A comparison of two medians.

    Parameters
    ----------
    name
        What is compared.
    ours, theirs
        Medians of both sides, in `unit`.
    limit
        Largest allowed ratio ours / theirs.
    rounds
        Number of measurements of each side.
    unit
        `s` or `bytes`.
    by_round
        Ratio of each round, where both sides of a round were measured one after the other.
    """

    name: str
    ours: float
    theirs: float
    limit: float
    rounds: int
    unit: str = "s"
    by_round: tuple[float, ...] = ()

    @property
    def ratio(self) -> float:
        """Our median divided by theirs."""
        return self.ours / self.theirs

    @property
    def ok(self) -> bool:
        """Whether the ratio is within the limit."""
        return self.ratio <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "MISSED"
        unit, factor = SHOWN[self.unit]
        return (
            f"{self.name}: {self.ratio:.3f}x (at most {self.limit:.3g}x: {verdict}); medians of {self.rounds} "
            f"alternating rounds: {self.ours * factor:.1f} {unit} against {self.theirs * factor:.1f} {unit}"
        )


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], limit: float, rounds: int = 15
) -> Ratio:
    """Time two functions in alternating order, after one warm-up round."""
    ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for index in range(rounds):
        for side in (0, 1) if index % 2 else (1, 0):
            times[side].append(_seconds((ours, theirs)[side]))
    by_round = tuple(one / other for one, other in zip(*times, strict=True))
    return Ratio(name, statistics.median(times[0]), statistics.median(times[1]), limit, rounds, by_round=by_round)


def compare_peaks(
    name: str,
    ours: tuple[Callable[..., Callable[[], object]], tuple[object, ...]],
    theirs: tuple[Callable[..., Callable[[], object]], tuple[object, ...]],
    limit: float,
    rounds: int = 3,
) -> Ratio:
    """Compare how much two calls raise the peak memory of a fresh process (Linux only).

    Each side is a function and its arguments; the function returns the callable to measure.
    """
    peaks: tuple[list[float], list[float]] = ([], [])
    for index in range(rounds):
        for side in (0, 1) if index % 2 else (1, 0):
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
                peaks[side].append(alone.submit(_peak, *(ours, theirs)[side]).result())
    return Ratio(name, statistics.median(peaks[0]), statistics.median(peaks[1]), limit, rounds, "bytes")


def _peak(make: Callable[..., Callable[[], object]], arguments: tuple[object, ...]) -> float:
    call = make(*arguments)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current usage
    before = _high_water()
    call(), call()
    return _high_water() - before


def _high_water() -> float:
    status = Path("/proc/self/status").read_text()
    return 1024.0 * int(status.split("VmHWM:")[1].split()[0])
