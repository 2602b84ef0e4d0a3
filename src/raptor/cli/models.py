"""Verbs about a model as it is: what it is, training one, its phases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from raptor import printing
from raptor.cli.app import app
from raptor.cli.arguments import Data, EvalData, Head, Model, Weights
from raptor.options import Common, verb


@app.command("inspect")
@verb
def _inspect(
    model: Model,
    data: Data = None,
    weights: Weights = None,
    head: Head = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """What is this model: layers, tokens, cost, preprocessing; with --data also its norms by layer."""
    from raptor.commands.inspecting import inspect_model

    result = inspect_model(model, data, weights, head, common, loading)
    common.show(result, lambda console: printing.print_inspection(console, result, common.out))


@app.command()
@verb
def train(
    data: Annotated[str, typer.Option(help="Labelled images to train on; DATA[:SPLIT], the train split by default.")],
    eval_data: EvalData = None,
    eval_images: Annotated[int, typer.Option(min=1, help="How many of them.")] = 10_000,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = 5000,
    epochs: Annotated[float | None, typer.Option(min=0, help="Passes over the images, instead of --steps.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Layers.")] = 12,
    width: Annotated[int, typer.Option(min=4, help="Features of a token.")] = 128,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 4,
    patch_size: Annotated[int, typer.Option(min=1, help="Side of a patch in pixels.")] = 8,
    registers: Annotated[int, typer.Option(min=0, help="Register tokens.")] = 4,
    drop_path: Annotated[float, typer.Option(min=0, max=0.95, help="Stochastic depth: p of every layer.")] = 0.0,
    layer_scale: Annotated[float | None, typer.Option(help="Initial LayerScale; without it there is none.")] = None,
    lr: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 1e-3,
    muon_lr: Annotated[float | None, typer.Option(min=0, help="Peak rate of Muon, for the blocks' matrices.")] = None,
    warmup: Annotated[int, typer.Option(min=0, help="Steps of linear warm-up.")] = 200,
    weight_decay: Annotated[float, typer.Option(min=0, help="Of weight matrices.")] = 0.05,
    flip: Annotated[bool, typer.Option("--flip/--no-flip", help="Mirror training images at random.")] = True,
    shift: Annotated[int, typer.Option(min=0, help="Move training images by up to this many pixels.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """Train our own ViT as a classifier; --out DIR is then a MODEL of every other verb."""
    from raptor.commands.training import train_model

    result = train_model(
        data, eval_data, eval_images, epochs, common, resume,
        vit={"depth": depth, "width": width, "heads": heads, "patch_size": patch_size, "n_register": registers,
             "drop_path": drop_path, "layer_scale": layer_scale},
        recipe={"steps": steps, "batch_size": common.batch, "lr": lr, "muon_lr": muon_lr or None, "warmup": warmup,
                "weight_decay": weight_decay, "seed": common.seed},
        augmentation={"flip": flip, "shift": shift},
        loading=loading,
    )  # fmt: skip
    if result is not None:
        common.show(result, lambda console: printing.print_training(console, result, common.out))


@app.command()
@verb
def phases(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="One model, or several side by side; see inspect.")
    ] = None,
    data: Data = None,
    matrix: Annotated[
        Path | None, typer.Option(help="Instead of a model: a csv of similarities of the layers 1..L.")
    ] = None,
    distance: Annotated[bool, typer.Option("--distance", help="The matrix holds distances, 1 - S.")] = False,
    k: Annotated[str, typer.Option(help="Number of phases, or auto.")] = "auto",
    group: Annotated[str, typer.Option(help="Tokens: all, cls, patch, register or cls+mean-patch.")] = "all",
    objective: Annotated[str, typer.Option(help="weighted, mean (as the paper prints it) or cut.")] = "weighted",
    solver: Annotated[str, typer.Option(help="dp, exhaustive, or recursive (with cut: the released one).")] = "dp",
    min_length: Annotated[int, typer.Option(min=1, help="Least number of layers of a phase.")] = 2,
    weights: Weights = None,
    *,
    loading: dict[str, Any],
    common: Common,
) -> None:
    """Find the phases of depth: how many, where, how sure, and whether they are phases at all."""
    from raptor.commands.phases import parse_k, phases_of_matrix, phases_of_models
    from raptor.errors import OptionError

    cutting = {"k": parse_k(k), "group": group, "objective": objective, "solver": solver, "min_length": min_length}
    if (matrix is None) == (not models):
        raise OptionError("phases are found in a MODEL, or in a matrix with --matrix FILE: give one of the two")
    if matrix is not None:
        columns = {"--image-column": loading["image_column"], "--label-column": loading["label_column"]}
        given = {"--data": data, "--weights": weights, "--images": common.images, **columns,
                 "--group": None if group == "all" else group}  # fmt: skip
        if names := [name for name, value in given.items() if value is not None]:
            raise OptionError(f"a matrix has neither images nor token groups: leave {', '.join(names)} out")
        result = phases_of_matrix(matrix, distance, common, cutting)
    elif distance:
        raise OptionError("--distance says what --matrix holds, but no matrix was given")
    else:
        result = phases_of_models(models or [], data, weights, common, cutting, loading)
    common.show(result, lambda console: printing.print_phases(console, result, common.out))
