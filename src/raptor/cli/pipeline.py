"""Verbs that do everything, and show it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from raptor.cli.app import app
from raptor.cli.arguments import Data, Model, Weights
from raptor.options import Common, verb
from raptor.pipeline_printing import print_pipeline, print_report


@app.command()
@verb
def run(
    model: Model,
    data: Data = None,
    k: Annotated[str, typer.Option(help="Number of phases, or auto.")] = "auto",
    preset: Annotated[str, typer.Option(help="quick (minutes), standard or full.")] = "standard",
    surrogate: Annotated[
        list[str] | None, typer.Option(help="A surrogate that is there already, to be measured too; may be repeated.")
    ] = None,
    weights: Weights = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """The whole pipeline, from a model and images to one page; stages that are done are not done again."""
    from raptor.commands.phases import parse_k
    from raptor.commands.pipeline import run_pipeline

    result = run_pipeline(model, data, parse_k(k), preset, surrogate or (), common, weights, loading)
    common.show(result, lambda console: print_pipeline(console, result))


@app.command()
@verb
def report(
    runs: Annotated[list[Path], typer.Argument(help="Directories that other verbs wrote with --out.")],
    *,
    common: Common,
) -> None:
    """One page of any run directories; --out is the file, report.html by default."""
    from raptor.commands.reporting import report_runs

    result = report_runs(runs, common)
    common.show(result, lambda console: print_report(console, result))


@app.command()
@verb
def demo(*, common: Common) -> None:
    """The whole pipeline on the ViT that ships, in a few minutes: `raptor run scenes --preset quick`."""
    from dataclasses import replace

    from raptor.commands.pipeline import run_pipeline
    from raptor.selection import AUTO

    common.warn()
    common = replace(common, out=common.out or Path("runs/demo"))
    loading = {"image_column": None, "label_column": None, "allow_damaged": False}
    result = run_pipeline("scenes", None, AUTO, "quick", (), common, None, loading)
    common.show(result, lambda console: print_pipeline(console, result))
