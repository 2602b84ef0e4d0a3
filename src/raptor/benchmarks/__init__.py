"""Benchmarks: ratios of two sides that alternate in one run, never times alone."""

from __future__ import annotations

from collections.abc import Callable

from raptor.benchmarks.ratio import Ratio
from raptor.benchmarks.rollout import rollout_against_forward

# One row a comparison; `raptor bench` runs them all.
BENCHMARKS: dict[str, Callable[[], Ratio]] = {"rollout": rollout_against_forward}
