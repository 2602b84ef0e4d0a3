"""What `raptor inspect` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raptor.inspection.inspect import InspectResult
from raptor.render.registry import page_table
from raptor.render.tables import Cell, Number, Part, Table, file_lines
from raptor.runtime.rundir import Record

SHOWN = ("family", "layers", "width", "heads", "tokens", "grid", "image_size", "parameters", "flops", "head",
         "preprocessing", "classes")  # fmt: skip


def show_inspect(record: Record[InspectResult]) -> Iterator[Part]:
    """Yield a table of sizes, notes, and norms where they were measured."""
    yield sizes(record.result, record.images)
    for note in record.result.notes:
        yield f"note: {note}"
    if record.result.norm is not None:
        yield norms(record.result, record.images)
    yield from file_lines(record)


def notebook(result: InspectResult) -> list[Part]:
    """Return what a notebook shows."""
    return [sizes(result)]


def sizes(result: InspectResult, images: int = 0) -> Table:
    """Return the model's sizes as names and values."""
    rows: list[tuple[Cell, ...]] = [
        (name, _pretty(value)) for name in SHOWN if (value := getattr(result, name)) is not None
    ]
    return Table(result.model, (), (*rows, ("images", f"{images:,}")))


def norms(result: InspectResult, images: int) -> Table:
    """Return the mean norm of tokens by layer and group."""
    assert result.norm is not None
    groups = list(result.norm.groups)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(layer), *(Number(result.norm.at(group, layer), ".2f", f"norm/{group}/{layer}") for group in groups))
        for layer in range(result.layers + 1)
    )
    return Table(f"mean norm of a token [95% interval], n = {images} images", ("layer", *groups), rows)


@page_table("inspect", "provenance")
def weights(record: Record[InspectResult]) -> Table:
    """Return the hash of the model's weights."""
    return Table("Weights", ("model", "sha256"), ((record.result.model, Number(record.result.sha256, "", "sha256")),))


def _pretty(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, list):
        return " x ".join(map(str, value))
    return str(value)
