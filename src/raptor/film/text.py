"""What the page and notebooks show of the depth film."""

from __future__ import annotations

from raptor.film.film import FilmResult
from raptor.render.registry import page_sentences
from raptor.render.tables import Cell, Number, Part, Table
from raptor.runtime.rundir import Record


@page_sentences("film", "film")
def explanation(record: Record[FilmResult]) -> list[str]:
    """Return how to read the film."""
    return [describe(record.result)]


def describe(result: FilmResult) -> str:
    """Say what the colours are, and how much of the variance they show."""
    return (
        "The film shows the patch tokens of an image at one layer after another. A patch's colour is the direction of "
        "its token: red, green and blue are the first three principal components of the directions of the teacher's "
        f"tokens at all layers ({sum(result.explained):.0%} of the variance)."
        + ("" if result.cosine_error is None else " Cosines between patches are computed from the leading principal "
           f"components; 95% of them are within {result.cosine_error:.3f} of the exact ones.")
    )  # fmt: skip


def notebook(result: FilmResult) -> list[Part]:
    """Return the explanation, and how far other flows are from the teacher."""
    return [describe(result), *([differences(result)] if result.apart else [])]


def differences(result: FilmResult) -> Table:
    """Return the mean of 1 - cosine with the teacher's tokens, by layer and flow."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(layer), *(Number(value, ".3f") for value in values))
        for layer, values in enumerate(zip(*result.apart.values(), strict=True))
    )
    return Table("Mean of 1 - cosine with the teacher's patch tokens", ("layer", *result.apart), rows)
