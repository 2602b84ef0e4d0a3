"""What `raptor phases` shows: on the terminal, in a notebook and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from raptor.phases.form.candidates import BLOCKS, KIND_NAMES
from raptor.phases.comparison import PhasesComparison
from raptor.phases.result import PhasesResult
from raptor.render.registry import page_sentences
from raptor.render.tables import Cell, Number, Part, Table, file_lines
from raptor.runtime.rundir import Record

VERB = "phases"
# What the form of a similarity matrix means.
MEANING = {
    "uniform drift": "it changes smoothly with depth, at constant speed",
    "non-uniform drift": "it changes smoothly with depth, at varying speed",
    "blocks": "it is constant inside phases and changes between them",
}
Sentence = tuple[Cell, ...]


def show_phases(record: Record[Any]) -> Iterator[Part]:
    """Yield, for each model, a table of partitions by k and the result in words; then files."""
    if isinstance(record.result, PhasesComparison):
        for one in record.result.models:
            yield partitions(one.result, one.model)
            yield from one.result.words
            for damage in one.damaged:
                yield f"skipped: {damage.path} ({damage.reason})"
    else:
        yield partitions(record.result, str(record.about.get("model", record.about.get("matrix", ""))))
        yield from record.result.words
    yield from file_lines(record)
    if isinstance(record.result, PhasesComparison) and record.out is not None:
        for one in record.result.models:
            yield from (f"figure: {record.out / figure}" for figure in one.figures)


def partitions(result: PhasesResult, name: str) -> Table:
    """Return the best partition for each number of phases, with the held-out error of blocks at its boundaries."""
    rows: list[tuple[Cell, ...]] = []
    for k, best in result.by_k.items():
        roles, blocks = result.roles(k), result.structure.blocks.get(k)
        # A solver that is not exact may have other boundaries than the blocks, which are always exact.
        same = blocks is not None and blocks.phases == best.phases
        error = blocks.held_out.value if blocks is not None and same and blocks.held_out is not None else None
        rows.append(
            (
                f"{k} ({', '.join(roles)})" if roles else str(k),
                Number(str(best.phases), "", f"by_k/{k}/phases"),
                Number(best.score, ".4f", f"by_k/{k}/score"),
                Number(error, ".4f", f"structure/blocks/{k}/held_out"),
            )
        )
    columns = ("k", "best phases", f"score ({result.objective})", "held-out error as blocks")
    return Table(name, columns, tuple(rows))


@singledispatch
def notebook(result: Any) -> list[Any]:
    """Return what a notebook shows."""
    raise TypeError(f"no notebook view of {type(result).__name__}")


@notebook.register
def _(result: PhasesResult) -> list[Any]:
    return [*result.words, _similarity({"Similarity between layers": result})]


@notebook.register
def _(result: PhasesComparison) -> list[Any]:
    words = [f"{one.model}: {word}" for one in result.models for word in one.result.words]
    return [*words, _similarity({one.model: one.result for one in result.models})]


def _similarity(results: dict[str, PhasesResult]) -> Any:
    """Return a chart of similarity matrices with their partitions, by title."""
    from raptor.phases.panels import panel
    from raptor.render.matrix_charts import side_by_side

    return side_by_side([panel(result, title) for title, result in results.items()])


def _results(record: Record[Any]) -> list[PhasesResult]:
    if isinstance(record.result, PhasesComparison):
        return [one.result for one in record.result.models]
    return [record.result]


@page_sentences(VERB, "depth")
def words(record: Record[Any]) -> list[Sentence]:
    """Return the result in words."""
    return [(word,) for result in _results(record) for word in result.words]


@page_sentences(VERB, "answer")
def answer(record: Record[Any]) -> list[Sentence]:
    """Return the answer on a model's depth: the verdict, the partition and how certain it is."""
    result = record.result
    if not isinstance(result, PhasesResult):
        return []
    said: list[Cell] = []
    if record.about.get("data"):
        said += ["Model: ", Number(record.about.get("model"), "", "model"), ", ",
                 Number(record.layers, "", "layers"), " layers. Images: ",
                 Number(record.images, ",", "images"), " of ", Number(record.about["data"], "", "data"),
                 ". "]  # fmt: skip
    kind = KIND_NAMES.get(result.verdict, result.verdict)
    said += ["Similarity of layers: ", Number(result.verdict, "", "verdict", shown=kind),
             f" ({MEANING.get(kind, kind)}). The best split into ", Number(result.k, "", "k"), " phases is ",
             Number(str(result.phases), "", "phases"), " layers"]  # fmt: skip
    if result.bootstrap is not None and result.boundaries:
        least = min(result.bootstrap.boundary_frequency.get(layer, 0.0) for layer in result.boundaries)
        said += [f"; each boundary is found again in at least {least:.0%} of ",
                 Number(result.bootstrap.n, ",", "bootstrap/n"), " bootstrap resamples of the images"]  # fmt: skip
    said += [".", Number(result.suggested_k, "", "suggested_k", shown=_evidence(result.suggested_k))]
    return [tuple(said)]


def _evidence(phases: int) -> str:
    """Return the number of phases for which similarity is evidence, in words."""
    if phases == 1:
        return " Similarity alone is no evidence that these phases are real."
    return f" Similarity alone is evidence for {phases} phases."


@page_sentences(VERB, "refuted")
def refuted(record: Record[Any]) -> list[Sentence]:
    """Return what the paper claims of phases and the similarity does not show."""
    return [
        ("Claim of the paper: the similarity of layers shows phases. Measured "
            "here: it changes smoothly with depth, so the "
         "boundaries between phases are a choice of the method.",)
        for one in _results(record)
        if one.verdict != BLOCKS
    ]  # fmt: skip
