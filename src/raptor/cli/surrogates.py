"""Verbs about surrogates: training, measuring, writing for other runtimes, planning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from raptor import printing
from raptor.cli.app import app
from raptor.cli.arguments import Data, EvalData, Head, Model, Weights
from raptor.options import Common, verb


@app.command()
@verb
def distill(
    model: Model,
    data: Data = None,
    k: Annotated[str | None, typer.Option(help="Number of phases, or auto.")] = None,
    phases: Annotated[str | None, typer.Option(help="Lengths instead, such as 7-3-2.")] = None,
    recipe: Annotated[str, typer.Option(help="default, paper or released.")] = "default",
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps of each of the two stages.")] = 2000,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate instead of the recipe's.")] = None,
    muon_lr: Annotated[float | None, typer.Option(help="That of Muon, for matrices; 0 leaves all to AdamW.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of blocks: teacher, swiglu or gelu.")] = None,
    relax_rank: Annotated[int, typer.Option(min=0, help="Rank of a correction of tied weights for each layer.")] = 0,
    untied: Annotated[bool, typer.Option("--untied", help="Control: each block once, a network of k layers.")] = False,
    eval_data: EvalData = None,
    eval_images: Annotated[int, typer.Option(min=2, help="How many of them.")] = 1000,
    precision: Annotated[str, typer.Option(help="Of matrix products: no (as the weights), bf16 or fp16.")] = "no",
    accumulate: Annotated[int, typer.Option(min=1, help="Parts of a batch, computed one after another.")] = 1,
    cache: Annotated[Path | None, typer.Option(help="Keep the teacher's states here, in half precision.")] = None,
    recompute: Annotated[bool, typer.Option("--recompute", help="Less memory: activations are not kept.")] = False,
    track: Annotated[str | None, typer.Option(help="Trackers beside metrics.jsonl: tensorboard,wandb.")] = None,
    weights: Weights = None,
    head: Head = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints in --out.")] = False,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """Train a Raptor: a few tied blocks that reproduce the model's whole trajectory; --out DIR is then a MODEL."""
    from raptor.commands.distilling import distill_model
    from raptor.commands.phases import parse_k

    blocks = {**({"relax_rank": relax_rank} if relax_rank else {}), **({"untied": True} if untied else {})}
    result = distill_model(
        model, data, None if k is None else parse_k(k), phases, common,
        recipe={"name": recipe, "steps": steps, "lr": lr, "muon_lr": muon_lr, "kind": kind, **blocks},
        launch={"precision": precision, "accumulate": accumulate, "recompute": recompute,
                "trackers": tuple(track.split(",")) if track else ()},
        eval_data=eval_data, eval_images=eval_images, weights=weights, head=head, resume=resume, cache=cache,
        loading=loading,
    )  # fmt: skip
    if result is not None:
        common.show(result, lambda console: printing.print_distillation(console, result, common.out))


@app.command()
@verb
def fidelity(
    surrogate: Annotated[str, typer.Argument(help="A directory that distill wrote.")],
    data: Data = None,
    teacher: Annotated[str | None, typer.Option(help="Its teacher, where it is not to be found by name.")] = None,
    weights: Weights = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """How close a surrogate is to its teacher, layer by layer, how often it is right, and what it costs."""
    from raptor.commands.fidelity import fidelity_of

    result = fidelity_of(surrogate, data, teacher, weights, common, loading)
    common.show(result, lambda console: printing.print_fidelity(console, result, common.out))


@app.command()
@verb
def export(
    surrogate: Annotated[str, typer.Argument(help="A directory that distill wrote, or any other model.")],
    format: Annotated[str, typer.Option(help="torch-export or onnx.")] = "torch-export",
    weights: Weights = None,
    *,
    common: Common,
) -> None:
    """Write a surrogate for other runtimes into --out, and check it against what it was made from."""
    from raptor.commands.exporting import export_model

    result = export_model(surrogate, format, weights, common)
    common.show(result, lambda console: printing.print_export(console, result, common.out))


@app.command()
@verb
def plan(
    model: Model,
    dataset_size: Annotated[int, typer.Option(min=1, help="Training images.")],
    k: Annotated[int, typer.Option(min=1, help="Number of phases.")] = 3,
    devices: Annotated[int, typer.Option(min=1, help="How many devices such as the one at hand.")] = 1,
    epochs: Annotated[float, typer.Option(min=0, help="Of each of the two stages.")] = 20.0,
    recipe: Annotated[str, typer.Option(help="default, paper or released.")] = "default",
    weights: Weights = None,
    *,
    common: Common,
) -> None:
    """What a full distillation would cost: operations, time, memory and disk, from a few steps on this device."""
    from raptor.commands.planning import plan_distillation

    result = plan_distillation(model, dataset_size, k, devices, epochs, recipe, weights, common)
    common.show(result, lambda console: printing.print_plan(console, result))
