"""What `dynamics` and `intervene` print for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raptor.formatting import HELD, number
from raptor.printing import print_files


def print_dynamics(console: Console, result: dict[str, Any], out: Path | None) -> None:
    for group, speeds in result["speed"].items():
        columns = {"norm": result["norm"], "gamma": result["gamma"], "speed": result["speed"],
                   "spread": result["speed_std"], "stable rank": result["stable_rank"],
                   "coherence": result["coherence"]}  # fmt: skip
        shown = {name: values[group] for name, values in columns.items() if group in values}
        table = Table("layer", *shown, title=f"{group}, n = {result['images']:,} images")
        for layer in range(len(speeds) + 1):
            table.add_row(str(layer), *(number(v[layer]) if layer < len(v) else "" for v in shown.values()))
        console.print(table)
        dmd, settled = result["dmd"][group], result["settled_layer"][group]
        console.print(
            f"{group}: gamma first above 0.9 at layer {settled}; DMD of rank {dmd['rank']}: spectral radius "
            f"{number(dmd['spectral_radius'])}, median modulus {number(dmd['median_modulus'])} (a walk without memory: "
            f"{number(dmd['random_walk']['spectral_radius'])}, {number(dmd['random_walk']['median_modulus'])})"
        )
    print_claims(console, result["claims"])
    if result["against"] is not None:
        _print_distances(console, result["against"]["distances"])
    print_files(console, out, result["figures"])


def print_claims(console: Console, claims: list[dict[str, Any]]) -> None:
    table = Table("the paper's claim", "here", "evidence")
    for claim in claims:
        table.add_row(escape(claim["text"]), HELD[claim["held"]], escape(claim["evidence"]))
    console.print(table)


def _print_distances(console: Console, distances: dict[str, Any]) -> None:
    """Print how far models are apart, as a share of the first one's range, a column a pair."""
    first = next(iter(distances.values()))
    table = Table(
        "measure", "tokens", *(escape(pair) for pair in distances),
        title="mean distance of two curves over the range of the first",
    )  # fmt: skip
    for name, groups in first.items():
        for group in groups:
            cells = [number(apart[name][group]["relative"]) for apart in distances.values()]
            table.add_row(name.replace("_", " "), group, *cells)
    console.print(table)
    if len(distances) == 1:
        console.print("a second --against, of another seed, shows how far two surrogates are apart from each other")


def print_interventions(console: Console, result: dict[str, Any], out: Path | None) -> None:
    own = result["untouched"]
    title = f"{result['measure']} with layers changed, n = {result['images']:,} images \\[95% interval]; untouched: "
    table = Table(
        "experiment", "layers", "within a phase", "across phases", "difference", "d", title=title + number(own["mean"])
    )
    for name in ("replace", "interchange", "skip", "repeat"):
        for n, contrast in result[name].items():
            cells = [_effect(contrast[kind]) for kind in ("intra", "inter")]
            if contrast["difference"] is None:
                cells += ["", ""]
            else:
                low, high = (number(end) for end in contrast["difference_ci"])
                size = contrast["effect_size"]
                cells += [
                    f"{number(contrast['difference'])} \\[{low}, {high}]",
                    "" if size is None else number(size, ".2f"),
                ]
            table.add_row(name, n, *cells)
    console.print(table)
    print_files(console, out, result["figures"])


def _effect(effect: dict[str, Any] | None) -> str:
    if effect is None:
        return ""
    low, high = (number(end) for end in effect["ci"])
    return f"{number(effect['mean'])} \\[{low}, {high}]"
