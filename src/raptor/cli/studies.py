"""The verb that runs small-scale studies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from raptor.cli.app import app
from raptor.options import Common, verb
from raptor.study_printing import print_study, print_study_plan


@app.command()
@verb
def study(
    name: Annotated[str, typer.Argument(help="stochastic-depth, partitions, emergence, ablation, k-curve or gallery.")],
    data: Annotated[str, typer.Option(help="Labelled images with a train and a test split.")] = "scenes",
    size: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "laptop",
    resume: Annotated[bool, typer.Option("--resume", help="Go on: what is done is not done again.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what it would cost on this device, and do nothing.")
    ] = False,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """A small-scale study: where phases come from, and what surrogates need."""
    from raptor.commands.studying import study as run_study

    result = run_study(name, data, size, resume, plan, common, loading)
    if plan:
        common.show(result, lambda console: print_study_plan(console, result))
    else:
        common.show(result, lambda console: print_study(console, result, common.out))
