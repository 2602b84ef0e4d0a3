"""Benchmarks: ratios of two sides that alternate in one run, never times alone."""

from __future__ import annotations

import sys
from collections.abc import Callable

from raptor.benchmarks.attention import bf16_attention
from raptor.benchmarks.busy import busy_inspect, busy_phases, busy_training, quiet_loss
from raptor.benchmarks.distillation import (
    default_block_small,
    default_block_wide,
    inference,
    peak_memory,
    same_block_small,
    same_block_wide,
)
from raptor.benchmarks.dynamics import dynamics_against_forward
from raptor.benchmarks.phases import (
    fit_against_forward,
    function_against_forward,
    segmentation_against_ruptures,
    similarity_against_forward,
)
from raptor.benchmarks.probing import eight_rates, kept_features
from raptor.benchmarks.rollout import rollout_against_forward
from raptor.benchmarks.training import generation_against_step, step_against_products
from raptor.benchmarks.verbs import (
    all_dynamics_against_forward,
    fidelity_against_forward,
    phases_against_forward,
    start_against_three_seconds,
)
from raptor.runtime.timing import Ratio

# One row a comparison; `raptor bench` runs them all.
BENCHMARKS: dict[str, Callable[[], Ratio]] = {
    "rollout": rollout_against_forward,
    "scenes": generation_against_step,
    "training-step": step_against_products,
    "similarity": similarity_against_forward,
    "function": function_against_forward,
    "fit": fit_against_forward,
    "segmentation": segmentation_against_ruptures,
    "distillation-same-192": same_block_small,
    "distillation-same-384": same_block_wide,
    "distillation-default-192": default_block_small,
    "distillation-default-384": default_block_wide,
    **({"distillation-memory": peak_memory} if sys.platform == "linux" else {}),  # where peaks can be told
    "inference": inference,
    "attention-bf16": bf16_attention,
    "dynamics": dynamics_against_forward,
    "probe-rates": eight_rates,
    "probe-kept": kept_features,
    "verb-phases": phases_against_forward,
    "verb-fidelity": fidelity_against_forward,
    "verb-dynamics": all_dynamics_against_forward,
    "start": start_against_three_seconds,
    "busy-inspect": busy_inspect,
    "busy-phases": busy_phases,
    "busy-training": busy_training,
    "quiet-training": quiet_loss,
}
