"""What `raptor fidelity` shows."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from raptor.evaluation import tables
from raptor.evaluation.elastic.table import elastic_table
from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.rewritable import rewritable_rung
from raptor.evaluation.summary.headline import fidelity_tiles
from raptor.evaluation.summary.naming import surrogate_name, training_of
from raptor.render.registry import Rung, evidence, page_sentences, page_table
from raptor.render.tables import Cell, Number, Part, Table, file_lines
from raptor.render.tiles import Tile, tiles
from raptor.runtime.rundir import Record


def show_fidelity(record: Record[FidelityResult]) -> Iterator[Part]:
    """Yield fidelity by layer, accuracy and cost."""
    yield from tables.parts(record.result, record.images)
    if record.result.elastic is not None:
        yield elastic_table(record.result.elastic)
    yield from file_lines(record)


def notebook(result: FidelityResult) -> list[Part]:
    """Return what a notebook shows: a sentence, and R2 by token group and layer."""
    r2 = result.by_layer["r2"]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (group, *(Number(value, ".3f", f"r2/{group}/{layer}") for layer, value in enumerate(values)))
        for group, values in r2.mean.items()
    )
    layers = (str(layer) for layer in range(1, len(rows[0])))
    return [str(result), Table("", ("R2 of layer", *layers), rows)]


@page_sentences("fidelity", "surrogate")
def how_measured(record: Record[FidelityResult]) -> list[str]:
    """Return how to read the tables of surrogates."""
    return [tables.HOW_MEASURED]


@page_table("fidelity", "surrogate")
def cost(record: Record[FidelityResult]) -> Table:
    """Return what the surrogate keeps and costs."""
    name = surrogate_name(record) + training_of(record)
    return tables.cost(record.result, name, record.result.phases, record.images)


@page_table("fidelity", "surrogate")
def linear(record: Record[FidelityResult]) -> Table | None:
    """Return linear maps in place of each phase, beside the tied blocks."""
    return tables.linear(record.result, surrogate_name(record))


@page_table("fidelity", "surrogate")
def nulls(record: Record[FidelityResult]) -> Table | None:
    """Return what the same surrogate reaches on null teachers."""
    return tables.nulls(record.result, surrogate_name(record))


@page_table("fidelity", "surrogate")
def elastic(record: Record[FidelityResult]) -> Table | None:
    """Return fidelity and accuracy by number of steps."""
    return None if record.result.elastic is None else elastic_table(record.result.elastic)


@page_sentences("fidelity", "surrogate")
def outliers(record: Record[FidelityResult]) -> list[str]:
    """Return which patches are a token group of their own."""
    return [] if record.result.outliers is None else [str(record.result.outliers)]


@page_sentences("fidelity", "answer")
def answer(record: Record[FidelityResult]) -> list[Markup]:
    """Return what was found, in a sentence."""
    run = "" if record.out is None else record.out.name
    return [tables.answer(record.result, surrogate_name(record), record.result.phases, record.images, run)]


@tiles("fidelity")
def headline(record: Record[FidelityResult]) -> Iterator[Tile]:
    """Yield the numbers at the top of the page."""
    return fidelity_tiles(record)


@evidence("fidelity")
def rewritable(record: Record[FidelityResult]) -> Rung | None:
    """Return whether tied blocks reproduce the trajectory, and better than that of models with nothing to find."""
    return rewritable_rung(record.result, record.images, surrogate_name(record))
