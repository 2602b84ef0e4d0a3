"""`raptor run` and `raptor demo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raptor.data.options import LoadOptions
from raptor.pipeline.options import PipelineOptions
from raptor.runtime.options import Data, Model, RunOptions, Weights
from raptor.runtime.rundir import Record
from raptor.runtime.verbs import PAGE, START, verb

if TYPE_CHECKING:
    from raptor.pipeline.result import PipelineResult


@verb(PAGE, "pipeline.result:PipelineResult", name="run")
def run_command(
    model: Model,
    data: Data = None,
    weights: Weights = None,
    *,
    options: PipelineOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[PipelineResult]:
    """Run the whole pipeline from a model and images to one page; stages that have a result are skipped."""
    from raptor.pipeline.run import run_pipeline

    return run_pipeline(model, data, options, weights, loading, run_options)


@verb(START, "pipeline.result:PipelineResult")
def demo(*, run_options: RunOptions) -> Record[PipelineResult]:
    """Run the whole pipeline on the ViT that comes with raptor, in a few minutes: `run scenes --preset quick`."""
    from raptor.pipeline.run import run_pipeline

    run_options.warn()
    run_options = replace(run_options, out=run_options.out or Path("runs/demo"))
    return run_pipeline("scenes", None, PipelineOptions(preset="quick"), None, LoadOptions(), run_options)
