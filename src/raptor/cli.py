"""The command line: verbs, no logic. Each is a thin layer over one function of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raptor import __version__
from raptor.options import Common, verb

app = typer.Typer(add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode=None)

Model = Annotated[str, typer.Argument(help="scenes, a hub id, a directory, timm:NAME, or dinov2:ARCH with --weights.")]
Data = Annotated[
    str | None, typer.Option(help="Images: a folder, class folders, parquet or a dataset id; DATA[:SPLIT].")
]
Weights = Annotated[Path | None, typer.Option(help="File with the weights: .safetensors, or .pth of plain tensors.")]
ImageColumn = Annotated[str | None, typer.Option(help="Column of a table that holds the images.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of a table that holds the labels.")]
AllowDamaged = Annotated[bool, typer.Option("--allow-damaged", help="Skip any number of damaged images, not only 1%.")]


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
    head: Annotated[Path | None, typer.Option(help="File with a linear classifier's weight and bias.")] = None,
    image_column: ImageColumn = None,
    label_column: LabelColumn = None,
    allow_damaged: AllowDamaged = False,
    *,
    common: Common,
) -> None:
    """What is this model: layers, tokens, cost, preprocessing; with --data also its norms by layer."""
    from raptor.commands.inspecting import inspect_model
    from raptor.run import Run

    loading = {"image_column": image_column, "label_column": label_column, "allow_damaged": allow_damaged}
    config = common.config(model=model, data=data, weights=weights, head=head, **loading)
    with Run("inspect", config, common.out, common.seed) as run:
        result = inspect_model(
            run, model, data, weights=weights, head=head, image_size=common.size, device=common.device,
            progress=common.progress, batch_size=common.batch_size, images=common.images, **loading,
        )  # fmt: skip
    common.show(result, lambda console: _print_inspection(console, result, common.out))


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
    image_column: ImageColumn = None,
    label_column: LabelColumn = None,
    allow_damaged: AllowDamaged = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    *,
    common: Common,
) -> None:
    """Train our own ViT as a classifier; --out DIR is then a MODEL of every other verb."""
    from raptor.commands.training import train_model

    result = train_model(
        data, eval_data, eval_images, epochs, common, resume,
        vit={"depth": depth, "width": width, "heads": heads, "patch_size": patch_size, "n_register": registers,
             "drop_path": drop_path, "layer_scale": layer_scale},
        recipe={"steps": steps, "batch_size": common.batch_size, "lr": lr, "muon_lr": muon_lr, "warmup": warmup,
                "weight_decay": weight_decay, "seed": common.seed},
        augmentation={"flip": flip, "shift": shift},
        loading={"image_column": image_column, "label_column": label_column, "allow_damaged": allow_damaged},
    )  # fmt: skip
    common.show(result, lambda console: _print_training(console, result, common.out))


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
    solver: Annotated[str, typer.Option(help="dp, recursive (as the released code) or exhaustive.")] = "dp",
    min_length: Annotated[int, typer.Option(min=1, help="Least number of layers of a phase.")] = 2,
    weights: Weights = None,
    image_column: ImageColumn = None,
    label_column: LabelColumn = None,
    allow_damaged: AllowDamaged = False,
    *,
    common: Common,
) -> None:
    """Find the phases of depth: how many, where, how sure, and whether they are phases at all."""
    from raptor.commands.phases import parse_k, phases_of_matrix, phases_of_models
    from raptor.errors import OptionError

    cutting = {"k": parse_k(k), "group": group, "objective": objective, "solver": solver, "min_length": min_length}
    loading = {"image_column": image_column, "label_column": label_column, "allow_damaged": allow_damaged}
    if (matrix is None) == (not models):
        raise OptionError("phases are found in a MODEL, or in a matrix with --matrix FILE: give one of the two")
    if matrix is not None:
        if data is not None or group != "all":
            raise OptionError("a matrix has neither images nor token groups: leave --data and --group out")
        result = phases_of_matrix(matrix, distance, common, cutting)
    elif distance:
        raise OptionError("--distance says what --matrix holds, but no matrix was given")
    else:
        result = phases_of_models(models or [], data, weights, common, cutting, loading)
    common.show(result, lambda console: _print_phases(console, result, common.out))


@app.command()
@verb
def doctor(*, common: Common) -> None:
    """This machine: versions, devices, and a toy flow on the chosen device against the CPU."""
    from raptor.doctor import examine
    from raptor.run import Run

    with Run("doctor", common.config(), common.out, common.seed) as run:
        body = examine(common.device, common.seed)
        result = run.finish(body, images=8, layers=body.pop("depth"))
    common.show(result, lambda console: _print_doctor(console, result))
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
    common.show(result, lambda console: _print_inspection(console, result, out))


def _print_inspection(console: Console, result: dict[str, Any], out: Path | None) -> None:
    table = Table(title=escape(str(result["model"])), show_header=False)
    for key in ("family", "layers", "width", "heads", "tokens", "grid", "image_size", "parameters", "flops", "head",
                "preprocessing", "images", "classes"):  # fmt: skip
        if result.get(key) is not None:
            table.add_row(key, escape(_pretty(result[key])))
    console.print(table)
    for note in result.get("notes", []):
        console.print(f"note: {escape(note)}")
    if "norm" in result:
        _print_norms(console, result)
    if out is not None:
        console.print(f"result: {escape(str(out / 'result.json'))}")
        for figure in result.get("figures", []):
            console.print(f"figure: {escape(str(out / figure))}")


def _print_norms(console: Console, result: dict[str, Any]) -> None:
    table = Table("layer", *result["norm"], title=f"mean norm of a token [95% interval], n = {result['images']} images")
    for layer in range(result["layers"] + 1):
        cells = []
        for group, values in result["norm"].items():
            low, high = result["norm_ci"][group]
            mean, least, most = (_number(numbers[layer]) for numbers in (values, low, high))
            cells.append(f"{mean} \\[{least}, {most}]")
        table.add_row(str(layer), *cells)
    console.print(table)
    for damage in result["damaged"]:
        console.print(f"skipped: {escape(damage['path'])} ({escape(damage['reason'])})")


def _print_training(console: Console, result: dict[str, Any], out: Path | None) -> None:
    low, high = result["top1_ci"]
    console.print(
        f"top-1 {result['top1']:.2%} (95% interval {low:.2%} to {high:.2%}, n = {result['images']:,}) after "
        f"{result['epochs']:.2f} epochs of {result['train_images']:,} images at {result['images_per_second']:.0f}/s"
    )
    if out is not None:
        console.print(f"model: {escape(str(out))}")


def _print_phases(console: Console, result: dict[str, Any], out: Path | None) -> None:
    for body in result.get("models", [result]):
        title = body.get("model", body.get("matrix"))
        table = Table("k", "best phases", "score", "held-out error as blocks", title=escape(str(title)))
        for number, best in body["by_k"].items():
            error = body["structure"]["blocks"].get(number, {}).get("held_out")
            names = {"taken": body["k"], "useful": body["useful_k"], "suggested": body["suggested_k"]}
            roles = ", ".join(name for name, value in names.items() if str(value) == number)
            cells = [f"{number} ({roles})" if roles else number, best["phases"], f"{best['score']:.4f}"]
            table.add_row(*cells, "" if error is None else f"{error:.4f}")
        console.print(table)
        for sentence in body["words"]:
            console.print(escape(sentence))
        for damage in body.get("damaged", []):
            console.print(f"skipped: {escape(damage['path'])} ({escape(damage['reason'])})")
    if out is not None:
        console.print(f"result: {escape(str(out / 'result.json'))}")
        for figure in [*result.get("figures", []), *(f for body in result.get("models", []) for f in body["figures"])]:
            console.print(f"figure: {escape(str(out / figure))}")


def _print_doctor(console: Console, result: dict[str, Any]) -> None:
    table = Table(title="raptor doctor", show_header=False)
    for name, version in result["versions"].items():
        table.add_row(name, version or "not installed")
    for key in ("device", "devices", "cores", "threads", "max_difference"):
        table.add_row(key, _pretty(result[key]))
    console.print(table)
    verdict = "agrees with" if result["ok"] else "DIFFERS FROM"
    console.print(f"a toy flow on {result['device']} {verdict} the CPU (tolerance {result['tolerance']})")


def _number(value: float | None) -> str:
    """Return two decimals; what is not a number is said to be none."""
    return "nan" if value is None else f"{value:.2f}"


def _pretty(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, list):
        return (
            " x ".join(map(str, value)) if all(isinstance(item, int) for item in value) else ", ".join(map(str, value))
        )
    return str(value)


def run_command(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    code = typer.main.get_command(app).main(arguments, prog_name="raptor", standalone_mode=False)
    return code if isinstance(code, int) else 0
