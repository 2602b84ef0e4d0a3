"""What `raptor intervene` shows."""

from __future__ import annotations

from collections.abc import Iterator

from raptor.interventions.intervene import Contrast, Effect, InterveneResult
from raptor.interventions.matrix import LayerMatrix
from raptor.render.tables import Cell, Number, Part, Table, file_lines
from raptor.runtime.rundir import Record

NAMES = {"state": "the last layer", "logits": "predictions", "accuracy": "accuracy"}


def show_intervene(record: Record[InterveneResult]) -> Iterator[Part]:
    """Yield the table of all experiments."""
    yield experiments(record.result, record.images)
    if record.result.matrix is not None:
        yield from single_layers(record.result.matrix)
    yield from file_lines(record)


def notebook(result: InterveneResult) -> list[Part]:
    """Return what a notebook shows."""
    return [experiments(result, result.untouched.score.n)]


def experiments(result: InterveneResult, images: int) -> Table:
    """Return the scores within phases and across phases, by experiment and number of changed layers."""
    title = (
        f"{result.measure} with layers changed, n = {images:,} images [95% interval]; unchanged model: "
        f"{result.untouched.score.value:.3f}"
    )
    rows = tuple(_row(name, n, contrast) for name, by_n in result.experiments.items() for n, contrast in by_n.items())
    columns = ("experiment", "layers", "within a phase", "across phases", "difference", "Cohen's d")
    return Table(title, columns, rows)


def single_layers(matrix: LayerMatrix) -> Iterator[str]:
    """Yield what the matrices of single layers say."""
    shares = ", ".join(f"{share:.0%} by {NAMES[name]}" for name, share in matrix.worse_than_skipping.items())
    yield (
        f"Replacing a layer by another is worse than skipping it for this share of all pairs of layers: {shares} (n = "
        f"{matrix.n} images)."
    )
    found = matrix.contrast
    if found is not None:
        value = Number(found.value, ".4f", "matrix/contrast/value")
        yield (
            f"Replacements across phases change the last layer by {value} more (1 - cosine) than replacements within "
            "phases, after adjusting for which layer is replaced and how far away the other is. By this difference, "
            f"these phases rank {found.rank} among {found.of} partitions with as many phases."
        )


def _row(name: str, n: int, contrast: Contrast) -> tuple[Cell, ...]:
    at = f"{name}/{n}/"
    return (
        name,
        str(n),
        _score(contrast.intra, f"{at}intra"),
        _score(contrast.inter, f"{at}inter"),
        Number(contrast.difference, ".3f", f"{at}difference"),
        Number(contrast.effect_size, ".2f", f"{at}effect_size"),
    )


def _score(effect: Effect | None, at: str) -> Number:
    ends = (f"{at}/ci/0", f"{at}/ci/1")
    return Number(None if effect is None else effect.score, ".3f", f"{at}/mean", ends)
