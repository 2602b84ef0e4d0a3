"""Benchmarks: ratios of two sides that alternate in one run, never times alone."""

from __future__ import annotations

import sys
from collections.abc import Callable

from raptor.benchmarks.distillation import (
    default_block_small,
    default_block_wide,
    inference,
    peak_memory,
    same_block_small,
    same_block_wide,
)
from raptor.benchmarks.dynamics import dynamics_against_forward
from raptor.benchmarks.phases import segmentation_against_ruptures, similarity_against_forward
from raptor.benchmarks.probing import eight_rates, kept_features
from raptor.benchmarks.rollout import rollout_against_forward
from raptor.benchmarks.training import generation_against_step, step_against_products
from raptor.runtime.timing import Ratio

# One row a comparison; `raptor bench` runs them all.
BENCHMARKS: dict[str, Callable[[], Ratio]] = {
    "rollout": rollout_against_forward,
    "scenes": generation_against_step,
    "training-step": step_against_products,
    "similarity": similarity_against_forward,
    "segmentation": segmentation_against_ruptures,
    "distillation-same-192": same_block_small,
    "distillation-same-384": same_block_wide,
    "distillation-default-192": default_block_small,
    "distillation-default-384": default_block_wide,
    **({"distillation-memory": peak_memory} if sys.platform == "linux" else {}),  # where peaks can be told
    "inference": inference,
    "dynamics": dynamics_against_forward,
    "probe-rates": eight_rates,
    "probe-kept": kept_features,
}
