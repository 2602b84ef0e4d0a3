"""Run the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from raptor import benchmarks
from raptor.runtime.timing import Ratio


@dataclass(frozen=True)
class BenchmarkRatio:
    """One comparison.

    Parameters
    ----------
    name
        What is compared, in words.
    ours, theirs, unit
        Medians of both sides, in seconds (`s`) or `bytes`.
    limit
        The largest ratio that is allowed.
    rounds
        Number of measurements of each side.
    ratio, ok
        Ours divided by theirs, and whether it is within the limit.
    """

    name: str
    ours: float
    theirs: float
    limit: float
    rounds: int
    unit: str
    ratio: float
    ok: bool

    @classmethod
    def of(cls, measured: Ratio) -> BenchmarkRatio:
        """Make the entry of a comparison."""
        own = {field.name: getattr(measured, field.name) for field in fields(cls)}
        return cls(**own)


@dataclass(frozen=True)
class BenchResult:
    """All comparisons.

    Parameters
    ----------
    ok
        Whether all are within their limits.
    ratios
        By name of the benchmark.
    """

    ok: bool
    ratios: dict[str, BenchmarkRatio]


def run_benchmarks(announce: Callable[[str], None] = lambda text: None) -> BenchResult:
    """Run all benchmarks.

    Parameters
    ----------
    announce
        Called with a line after each.
    """
    ratios = {}
    for name, benchmark in benchmarks.BENCHMARKS.items():
        measured = benchmark()
        announce(str(measured))
        ratios[name] = BenchmarkRatio.of(measured)
    return BenchResult(all(one.ok for one in ratios.values()), ratios)
