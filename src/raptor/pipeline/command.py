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


@verb(
    PAGE, "pipeline.result:PipelineResult", name="run",
    help={
        "out": "Directory for the report page and all results (required).",
        "images": "Number of images per measurement. Default: the preset's.",
        "batch_size": "Images per batch. Default: 32 for measurements, the preset's value for training.",
    },
)  # fmt: skip
def run_command(
    model: Model,
    data: Data = None,
    weights: Weights = None,
    *,
    options: PipelineOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[PipelineResult]:
    """Run all measurements on a model and write one report page. Run it again to continue after an interruption."""
    from raptor.pipeline.run import run_pipeline

    return run_pipeline(model, data, options, weights, loading, run_options)


@verb(
    START, "pipeline.result:PipelineResult",
    help={
        "out": "Directory for the report page and all results. Default: runs/demo.",
        "images": None, "batch_size": None, "image_size": None,
    },
)  # fmt: skip
def demo(*, run_options: RunOptions) -> Record[PipelineResult]:
    """Run all measurements on the bundled ViT and write a report page. This takes a few minutes."""
    from raptor.pipeline.run import run_pipeline

    run_options.warn()
    run_options = replace(run_options, out=run_options.out or Path("runs/demo"))
    return run_pipeline("scenes", None, PipelineOptions(preset="quick"), None, LoadOptions(), run_options)
