"""Verbs about depth as a dynamical system."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from raptor.cli.app import app
from raptor.cli.arguments import Data, Head, Model, Weights
from raptor.dynamics_printing import print_dynamics, print_interventions
from raptor.options import Common, verb


@app.command()
@verb
def dynamics(
    model: Model,
    data: Data = None,
    phases: Annotated[
        str, typer.Option(help="Lengths of the phases, such as 7-3-2; auto: a surrogate's own, or found.")
    ] = "auto",
    against: Annotated[
        list[str] | None, typer.Option(help="A model to lay beside it, such as its surrogate; may be given again.")
    ] = None,
    weights: Weights = None,
    head: Head = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """Depth as a flow on the sphere: convergence, speed, ranks, DMD, basins, sensitivity, expansion."""
    from raptor.commands.dynamics import dynamics_of

    result = dynamics_of(model, data, phases, against or [], common, weights, head, loading)
    common.show(result, lambda console: print_dynamics(console, result, common.out))


@app.command()
@verb
def intervene(
    model: Model,
    phases: Annotated[str, typer.Option(help="Lengths of the phases, such as 7-3-2.")],
    data: Data = None,
    most: Annotated[int, typer.Option(min=1, help="Orders of either kind that are drawn for each experiment.")] = 8,
    weights: Weights = None,
    head: Head = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """Replace, interchange, skip or repeat layers, within phases and across them; the model is left as it is."""
    from raptor.commands.intervening import intervene_in

    result = intervene_in(model, data, phases, most, common, weights, head, loading)
    common.show(result, lambda console: print_interventions(console, result, common.out))
