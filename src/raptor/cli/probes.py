"""Verbs about what features are worth: linear probes, and the table that they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raptor import probe_printing
from raptor.cli.app import app
from raptor.cli.arguments import Data, EvalData, Head, Model, Weights
from raptor.options import Common, counts, numbers, verb

if TYPE_CHECKING:
    from raptor.probes.plan import Plan

Fit = Annotated[
    str, typer.Option(help="Images as the model's own files say (own), squash (whole), or pad (of their own size).")
]
Rates = Annotated[
    str | None, typer.Option(help="Peak learning rates, all trained in one pass; default: three about the paper's.")
]
Seeds = Annotated[int, typer.Option(min=1, help="Trainings with seeds from --seed on.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the images; default: the paper's.")]
EigenCrop = Annotated[bool, typer.Option("--eigen-crop", help="Depth: report on the usual crop of NYUv2's 480x640.")]


def _plan(lrs: str | None, seeds: int, epochs: float | None, common: Common) -> Plan:
    from raptor.probes.plan import Plan

    return Plan(numbers(lrs, "--lrs") if lrs else None, range(common.seed, common.seed + seeds), epochs)


@app.command()
@verb
def probe(
    model: Model,
    data: Data = None,
    task: Annotated[
        str | None, typer.Option(help="classify, segment, depth, or several; default: all that there are labels for.")
    ] = None,
    eval_data: EvalData = None,
    eval_images: Annotated[
        int | None, typer.Option(min=1, help="How many to report on; at most 500 are selected on.")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="Whose states are read; default: the last.")] = None,
    lrs: Rates = None,
    seeds: Seeds = 3,
    epochs: Epochs = None,
    cache: Annotated[Path | None, typer.Option(help="Keep features on disk here, in half precision.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Keep no features: the model runs on every batch.")] = False,
    fit: Fit = "own",
    eigen_crop: EigenCrop = False,
    weights: Weights = None,
    head: Head = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """What a model's features are worth: linear heads on frozen tokens, for classes, masks or depth."""
    from raptor.commands.probing import probe_model

    result = probe_model(
        model, data, task.split(",") if task else None, common,
        plan=_plan(lrs, seeds, epochs, common),
        eval_data=eval_data, eval_images=eval_images, layer=layer, cache=cache, live=live, fit=fit,
        eigen_crop=eigen_crop,
        weights=weights, head=head, loading=loading,
    )  # fmt: skip
    common.show(result, lambda console: probe_printing.print_probe(console, result, common.out))


@app.command()
@verb
def table1(
    model: Model,
    data: Data = None,
    k: Annotated[str | None, typer.Option(help="Numbers of blocks; default: as given, or as they ship.")] = None,
    surrogates: Annotated[
        list[str] | None, typer.Option(help="Directories that distill wrote; what is missing is distilled into --out.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="A smaller model to compare with.")] = None,
    untied: Annotated[str | None, typer.Option(help="Numbers of blocks whose untied controls to distil.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of each stage, where a surrogate is distilled.")] = 1000,
    eval_data: EvalData = None,
    eval_images: Annotated[int, typer.Option(min=1, help="How many to report on; at most 500 are selected on.")] = 2000,
    lrs: Rates = None,
    seeds: Seeds = 3,
    epochs: Epochs = None,
    fit: Fit = "own",
    eigen_crop: EigenCrop = False,
    weights: Weights = None,
    head: Head = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """The paper's Table 1: teacher, surrogates and controls on classes, masks and depth, with what is recovered."""
    from raptor.commands.table1 import table1 as make

    result = make(
        model, data, None if k is None else counts(k, "--k"), common,
        surrogates=[source for given in surrogates or [] for source in given.split(",")], baseline=baseline,
        untied=counts(untied, "--untied") if untied else [], steps=steps,
        plan=_plan(lrs, seeds, epochs, common),
        eval_data=eval_data, eval_images=eval_images, fit=fit, eigen_crop=eigen_crop, weights=weights, head=head,
        loading=loading,
    )  # fmt: skip
    common.show(result, lambda console: probe_printing.print_table1(console, result, common.out))
