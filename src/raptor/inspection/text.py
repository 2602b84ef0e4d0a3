"""What `raptor inspect` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raptor.inspection.inspect import InspectResult
from raptor.inspection.outliers import LEAST_SHARE, OutlierTokens
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
    if record.result.outliers is not None:
        yield outlier_sentence(record.result.outliers)
        if record.result.outliers.massive:
            yield outlier_table(record.result.outliers)
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


def outlier_sentence(found: OutlierTokens) -> str:
    """Return what a person needs to know of massive activations."""
    if found.first_layer is None:
        return (
            f"No massive activations: at no layer do patches with more than {found.factor:g} times the median norm "
            f"hold {LEAST_SHARE:.0%} of the variance (n = {found.n:,} images)."
        )
    worst = found.worst_layer
    named = ", ".join(
        f"{feature} ({share:.0%})" for feature, share in zip(found.features, found.share_of_features, strict=True)
    )
    return (
        f"Massive activations from layer {found.first_layer} on. At layer {worst}, "
        f"{found.share_of_tokens[worst]:.1%} of the patches have more than {found.factor:g} times the median norm (up "
        f"to {found.largest_norm[worst]:.0f}, median {found.median_norm[worst]:.0f}) and hold "
        f"{found.share_of_variance[worst]:.0%} of the variance. Features with the most variance there: {named}. "
        f"{_place(found)} R2, principal components and ranks of patches mostly describe these few tokens; cosine and "
        f"relative error do not (n = {found.n:,} images)."
    )


def _place(found: OutlierTokens) -> str:
    """Return how many of the outliers lie on the border of the image, and how many patches do."""
    rows, columns = len(found.where), len(found.where[0])
    border = [
        (row, column)
        for row in range(rows)
        for column in range(columns)
        if row in (0, rows - 1) or column in (0, columns - 1)
    ]
    total = sum(map(sum, found.where))
    share = sum(found.where[row][column] for row, column in border) / total if total else 0.0
    expected = len(border) / (rows * columns)
    return f"{share:.0%} of them lie on the border of the image, which has {expected:.0%} of the patches."


def outlier_table(found: OutlierTokens) -> Table:
    """Return norms of patches and shares of outliers by layer."""
    columns = {
        "median norm": (found.median_norm, ".1f", "median_norm"),
        "largest norm": (found.largest_norm, ".1f", "largest_norm"),
        "outliers, share of patches": (found.share_of_tokens, ".2%", "share_of_tokens"),
        "outliers, share of variance": (found.share_of_variance, ".1%", "share_of_variance"),
    }
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            str(layer),
            *(Number(values[layer], form, f"outliers/{key}/{layer}") for values, form, key in columns.values()),
        )
        for layer in range(len(found.median_norm))
    )
    return Table(f"patches with massive activations, n = {found.n:,} images", ("layer", *columns), rows)


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
