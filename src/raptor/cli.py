"""The command line: verbs, no logic. Each is a thin layer over one function of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from raptor import __version__, printing
from raptor.options import Common, verb

app = typer.Typer(add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode=None)

Model = Annotated[str, typer.Argument(help="scenes, a hub id, a directory, timm:NAME, or dinov2:ARCH with --weights.")]
Data = Annotated[
    str | None, typer.Option(help="Images: a folder, class folders, parquet or a dataset id; DATA[:SPLIT].")
]
Weights = Annotated[Path | None, typer.Option(help="File with the weights: .safetensors, or .pth of plain tensors.")]
Head = Annotated[Path | None, typer.Option(help="File with a linear classifier's weight and bias.")]


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """See a Vision Transformer's depth as what it is: a few blocks applied again and again."""


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
    from raptor.run import Run

    config = common.config(model=model, data=data, weights=weights, head=head, **loading)
    with Run("inspect", config, common.out, common.seed) as run:
        result = inspect_model(
            run, model, data, weights=weights, head=head, image_size=common.size, device=common.device,
            progress=common.progress, batch_size=common.batch, images=common.images, **loading,
        )  # fmt: skip
    common.show(result, lambda console: printing.print_inspection(console, result, common.out))


@app.command()
@verb
def train(
    data: Annotated[str, typer.Option(help="Labelled images to train on; DATA[:SPLIT], the train split by default.")],
    eval_data: Annotated[str | None, typer.Option(help="Images to report on; by default the held-out split.")] = None,
    eval_images: Annotated[int, typer.Option(min=1, help="How many of them.")] = 10_000,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = 5000,
    epochs: Annotated[float | None, typer.Option(help="Passes over the images, instead of --steps.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Layers.")] = 12,
    width: Annotated[int, typer.Option(min=4, help="Features of a token.")] = 128,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 4,
    patch_size: Annotated[int, typer.Option(min=1, help="Side of a patch in pixels.")] = 8,
    registers: Annotated[int, typer.Option(min=0, help="Register tokens.")] = 4,
    drop_path: Annotated[float, typer.Option(min=0, max=0.95, help="Stochastic depth: p of every layer.")] = 0.0,
    layer_scale: Annotated[float | None, typer.Option(help="Initial LayerScale; without it there is none.")] = None,
    lr: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 1e-3,
    muon_lr: Annotated[float | None, typer.Option(help="Peak rate of Muon, for the blocks' matrices.")] = None,
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
        recipe={"steps": steps, "batch_size": common.batch, "lr": lr, "muon_lr": muon_lr, "warmup": warmup,
                "weight_decay": weight_decay, "seed": common.seed},
        augmentation={"flip": flip, "shift": shift},
        loading=loading,
    )  # fmt: skip
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
    eval_data: Annotated[str | None, typer.Option(help="Images to report on; by default the held-out split.")] = None,
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


@app.command()
@verb
def doctor(*, common: Common) -> None:
    """This machine: versions, devices, and a toy flow on the chosen device against the CPU."""
    from raptor.doctor import examine
    from raptor.run import Run

    with Run("doctor", common.config(), common.out, common.seed) as run:
        body = examine(common.device, common.seed)
        result = run.finish(body, images=8, layers=body.pop("depth"))
    common.show(result, lambda console: printing.print_doctor(console, result))
    if not result["ok"]:
        raise typer.Exit(1)


@app.command()
@verb
def bench(*, common: Common) -> None:
    """The benchmarks: each a ratio with the most that it may be; exit 1 where one is missed."""
    from raptor.benchmarks import BENCHMARKS
    from raptor.run import Run

    with Run("bench", common.config(), common.out, common.seed) as run:
        measured = {}
        for name, benchmark in BENCHMARKS.items():
            measured[name] = benchmark()
            common.progress.print(str(measured[name]), markup=False, highlight=False, soft_wrap=True)
        ok = all(ratio.ok for ratio in measured.values())
        ratios = {name: {**vars(ratio), "ratio": ratio.ratio, "ok": ratio.ok} for name, ratio in measured.items()}
        result = run.finish({"ok": ok, "ratios": ratios}, images=0, layers=0)
    common.show(result, lambda console: None)
    if not ok:
        raise typer.Exit(1)


@app.command()
@verb
def demo(*, common: Common) -> None:
    """The main job on the embedded default, from nothing to a picture."""
    from raptor.demo import run_demo

    out = common.out or Path("runs/demo")
    result = run_demo(out, common)
    common.show(result, lambda console: printing.print_demo(console, result, out))


def run_command(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    code = typer.main.get_command(app).main(arguments, prog_name="raptor", standalone_mode=False)
    return code if isinstance(code, int) else 0
