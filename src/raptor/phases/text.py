"""What `raptor phases` shows: on the terminal, in a notebook and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from raptor.core.estimate import Estimate
from raptor.phases.comparison import PhasesComparison
from raptor.phases.form.candidates import BLOCKS, DRIFT, NONUNIFORM_DRIFT
from raptor.phases.result import PhasesResult
from raptor.phases.sentences import found_again, interchangeable_sentence
from raptor.render.registry import Rung, evidence, page_sentences
from raptor.render.tables import Cell, Number, Part, Phrase, Table, file_lines
from raptor.render.tiles import Tile, tiles
from raptor.runtime.rundir import Record

VERB = "phases"
# What each verdict on the form of a similarity matrix means, as people read it.
FORMS = {
    DRIFT: "falls evenly with the distance between layers",
    NONUNIFORM_DRIFT: "falls smoothly with the distance between layers, not equally fast at all depths",
    BLOCKS: "is nearly constant within phases",
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
    columns = ("k", "best phases", f"score ({result.objective})", "held-out error of constant phases")
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
    """Return the result in words, without what the ladder says already."""
    rung = interchangeable(record)
    said = "" if rung is None else rung.text
    return [(word,) for result in _results(record) for word in result.words if word != said]


@page_sentences(VERB, "answer")
def answer(record: Record[Any]) -> list[Sentence]:
    """Return the answer on a model's depth: the verdict, the partition and how certain it is."""
    result = record.result
    if not isinstance(result, PhasesResult):
        return []
    said: list[Cell] = []
    if record.about.get("data"):
        said += ["Model: ", Number(record.about.get("model"), "", "model"), ", ",
                 Number(record.layers, "", "layers"), " layers. Phases were found on ",
                 Number(record.images, ",", "images"), " images (data: ", Number(record.about["data"], "", "data"),
                 "). "]  # fmt: skip
    said += ["The best partition into ", Number(result.k, "", "k"), " phases is ",
             Number(str(result.phases), "", "phases")]  # fmt: skip
    if result.bootstrap is not None and result.boundaries:
        least = min(result.bootstrap.boundary_frequency.get(layer, 0.0) for layer in result.boundaries)
        said += [f"; {found_again(least)} of ",
                 Number(result.bootstrap.n, ",", "bootstrap/n"), " bootstrap resamples of the images"]  # fmt: skip
    return [(*said, ".")]


@tiles(VERB)
def phases_tile(record: Record[Any]) -> Iterator[Tile]:
    """Yield the number of phases, with how sure it is."""
    result = record.result
    if not isinstance(result, PhasesResult):
        return
    detail: list[str | Number] = ["Phases ", Number(str(result.phases), "", "phases"), ". "]
    if result.bootstrap is not None and result.boundaries:
        least = min(result.bootstrap.boundary_frequency.get(layer, 0.0) for layer in result.boundaries)
        text = found_again(least)
        detail += [f"{text[0].upper()}{text[1:]} of ", Number(result.bootstrap.n, ",", "bootstrap/n"),
                   " resamples of ", Number(record.images, ",", "images"), " images. "]  # fmt: skip
    detail += _why(result)
    if result.suggested_k == 1:
        detail.append("The similarity alone is no evidence of phases: a smooth drift describes it better.")
    else:
        detail += ["The similarity is evidence for ", Number(result.suggested_k, "", "suggested_k"), " phases."]
    value = Phrase((Number(result.k, "", "k"), " phases" if result.k != 1 else " phase"))
    paper = "7-3-2 (DINOv2-B, k = 3)" if result.k == 3 and result.phases.depth == 12 else None
    yield Tile("phases", "Phases", value, Phrase(tuple(detail)), ribbon=result.phases.lengths, paper=paper)


def _why(result: PhasesResult) -> list[str | Number]:
    """Return why there are as many phases."""
    useful = Number(result.useful_k, "", "useful_k")
    if result.k != result.useful_k:
        return [f"k = {result.k} was given; raptor would choose ", useful, ". "]
    why = "no boundary is worth adding. " if result.k == 1 else "the elbow; more phases fit little better. "
    return ["Why k = ", useful, f": {why}"]


@evidence(VERB)
def form(record: Record[Any]) -> Rung | None:
    """Return what describes the form of the similarity best; this is no answer to the hypothesis."""
    result = record.result
    if not isinstance(result, PhasesResult) or not result.explained:
        return None
    shares = result.explained
    text = (
        f"Similarity, the mean cosine between a token at two layers, {FORMS[result.verdict]}. The form of the "
        "similarity is evidence neither for nor against recurrence."
    )
    best = max(shares, key=lambda name: shares[name])
    value = Estimate(shares[best], math.nan, math.nan, result.n)
    return Rung("form", None, value, None, text, value_key=f"explained/{best}")


@evidence(VERB)
def interchangeable(record: Record[Any]) -> Rung | None:
    """Return whether layers of a phase can stand in for one another."""
    result = record.result
    found = result.interchangeable if isinstance(result, PhasesResult) else None
    if found is None or result.function is None:
        return None
    short = {
        True: f"the layers of each phase by function ({found.phases}) are interchangeable",
        False: f"the layers of a phase by function ({found.phases}) are not interchangeable",
        None: "whether the layers of a phase are interchangeable is inconclusive",
    }[found.held]  # fmt: skip
    return Rung(
        "interchangeable",
        found.held,
        found.error,
        1.0,
        interchangeable_sentence(found, result.function.images),
        short=short,
        value_key="interchangeable/error",
    )
