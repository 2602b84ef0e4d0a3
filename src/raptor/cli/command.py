"""`raptor doctor` and `raptor bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import RESEARCH, START, verb

if TYPE_CHECKING:
    from raptor.benchmarks.run import BenchResult
    from raptor.cli.doctor import DoctorResult


NO_IMAGES = {"batch_size": None, "images": None, "image_size": None}


@verb(START, "cli.doctor:DoctorResult", fails=lambda record: not record.result.ok, help=NO_IMAGES)
def doctor(*, run_options: RunOptions) -> Record[DoctorResult]:
    """Show versions and devices, and check that the device computes the same numbers as the CPU."""
    from raptor.cli.device_check import IMAGES, LAYERS
    from raptor.cli.doctor import examine

    with Run("doctor", run_options.config(), run_options.out, run_options.seed) as run:
        result = examine(run_options.device, run_options.seed)
        return run.record(result, images=IMAGES, layers=len(LAYERS))


@verb(
    RESEARCH, "benchmarks.run:BenchResult", fails=lambda record: not record.result.ok,
    help={**NO_IMAGES, "seed": None, "device": None},
)  # fmt: skip
def bench(*, run_options: RunOptions) -> Record[BenchResult]:
    """Compare raptor's run time and memory with baselines such as a plain forward pass, and with fixed limits."""
    from raptor.benchmarks.run import run_benchmarks

    with Run("bench", run_options.config(), run_options.out, run_options.seed) as run:
        return run.record(run_benchmarks(run_options.announce), images=0, layers=0)
