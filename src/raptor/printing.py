"""What the verbs print for a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raptor.formatting import number


def print_files(console: Console, out: Path | None, figures: Sequence[str] = ()) -> None:
    """Say where a result and its figures are, where they were kept."""
    if out is not None:
        console.print(f"result: {escape(str(out / 'result.json'))}")
        for figure in figures:
            console.print(f"figure: {escape(str(out / figure))}")


def print_damaged(console: Console, damaged: list[dict[str, Any]]) -> None:
    """Say which images were skipped, and why."""
    for damage in damaged:
        console.print(f"skipped: {escape(damage['path'])} ({escape(damage['reason'])})")


def print_inspection(console: Console, result: dict[str, Any], out: Path | None) -> None:
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
    print_files(console, out, result.get("figures", []))


def _print_norms(console: Console, result: dict[str, Any]) -> None:
    table = Table("layer", *result["norm"], title=f"mean norm of a token [95% interval], n = {result['images']} images")
    for layer in range(result["layers"] + 1):
        cells = []
        for group, values in result["norm"].items():
            low, high = result["norm_ci"][group]
            mean, least, most = (number(numbers[layer], ".2f") for numbers in (values, low, high))
            cells.append(f"{mean} \\[{least}, {most}]")
        table.add_row(str(layer), *cells)
    console.print(table)
    print_damaged(console, result["damaged"])


def print_training(console: Console, result: dict[str, Any], out: Path | None) -> None:
    top1, low, high = (number(share, ".2%") for share in (result["top1"], *result["top1_ci"]))
    console.print(
        f"top-1 {top1} (95% interval {low} to {high}, n = {result['images']:,}) after "
        f"{result['epochs']:.2f} epochs of {result['train_images']:,} images at {result['images_per_second']:.0f}/s"
    )
    if out is not None:
        console.print(f"model: {escape(str(out))}")


def print_distillation(console: Console, result: dict[str, Any], out: Path | None) -> None:
    console.print(
        f"surrogate {result['phases']} of {escape(result['model'])}: recipe {result['recipe']}, "
        f"{' + '.join(map(str, result['steps']))} steps at {result['images_per_second']:.0f} images/s"
    )
    print_fidelity(console, {**result, **result["fidelity"]}, out)
    if out is not None:
        console.print(f"model: {escape(str(out))}")


def print_fidelity(console: Console, result: dict[str, Any], out: Path | None) -> None:
    table = Table("layer", "R2", "R2 at rest", "pearson2", "error",
                  title=f"all tokens [95% interval], n = {result['images']:,} held-out images")  # fmt: skip
    lows, highs = result["r2_ci"]["all"]
    rows = zip(*(result[name]["all"] for name in ("r2", "r2_identity", "pearson2", "relative_epsilon")), strict=True)
    for layer, (r2, *rest) in enumerate(rows, 1):
        shown = f"{number(r2)} \\[{number(lows[layer - 1])}, {number(highs[layer - 1])}]"
        table.add_row(str(layer), shown, *map(number, rest))
    console.print(table)
    if result["recovered"] is not None:
        low, high = (number(end, ".1%") for end in result["recovered_ci"])
        console.print(
            f"top-1 {result['surrogate_top1']:.2%} against the teacher's {result['teacher_top1']:.2%}: "
            f"{result['recovered']:.1%} recovered (95% interval {low} to {high}), "
            f"{number(result['recovered_above_chance'], '.1%')} of what is above chance"
        )
    for note in result["notes"]:
        console.print(f"note: {escape(note)}")
    for name in ("parameters", "flops"):
        cost = result[name]
        console.print(f"{name}: {cost['surrogate']:,}, {cost['ratio']:.3f} of the teacher's")
    if "runtime_ratio" in result:
        console.print(f"runtime: {result['runtime_ratio']:.3f} of the teacher's")
    print_files(console, out, result["figures"])


def print_export(console: Console, result: dict[str, Any], out: Path | None) -> None:
    apart = number(result["max_difference"], ".1e")
    console.print(f"{escape(str((out or Path()) / result['file']))}: differs by {apart} at most")


def print_plan(console: Console, result: dict[str, Any]) -> None:
    table = Table(title=f"{escape(result['model'])}, {result['dataset_size']:,} images", show_header=False)
    table.add_row("operations", f"{result['flops']:.3g}")
    table.add_row("time", f"{result['seconds'] / 3600:,.1f} hours on {result['devices']} x {escape(result['device'])}")
    for name in ("memory", "disk", "disk_if_stored"):
        table.add_row(name.replace("_", " "), f"{result[name] / 1e9:,.2f} GB")
    console.print(table)


def print_phases(console: Console, result: dict[str, Any], out: Path | None) -> None:
    for body in result.get("models", [result]):
        title = body.get("model", body.get("matrix"))
        table = Table("k", "best phases", "score", "held-out error as blocks", title=escape(str(title)))
        for k, best in body["by_k"].items():
            blocks = body["structure"]["blocks"].get(k, {})
            # A solver that is not exact cuts elsewhere than the blocks that were judged.
            error = blocks.get("held_out") if blocks.get("phases") == best["phases"] else None
            names = {"taken": body["k"], "useful": body["useful_k"], "suggested": body["suggested_k"]}
            roles = ", ".join(name for name, value in names.items() if str(value) == k)
            cells = [f"{k} ({roles})" if roles else k, best["phases"], f"{best['score']:.4f}"]
            table.add_row(*cells, "" if error is None else f"{error:.4f}")
        console.print(table)
        for sentence in body["words"]:
            console.print(escape(sentence))
        print_damaged(console, body.get("damaged", []))
    figures = [*result.get("figures", []), *(figure for body in result.get("models", []) for figure in body["figures"])]
    print_files(console, out, figures)


def print_doctor(console: Console, result: dict[str, Any]) -> None:
    table = Table(title="raptor doctor", show_header=False)
    for name, version in result["versions"].items():
        table.add_row(name, version or "not installed")
    for key in ("device", "devices", "cores", "threads", "max_difference"):
        table.add_row(key, _pretty(result[key]))
    console.print(table)
    verdict = "agrees with" if result["ok"] else "DIFFERS FROM"
    console.print(f"a toy flow on {result['device']} {verdict} the CPU (tolerance {result['tolerance']})")


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
