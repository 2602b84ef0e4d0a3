"""The registry of figures, tables and sentences that features show on the page.

A feature registers each with a decorator in its `figures` or `text` module. The verb then draws all its figures, and
the page shows them with their captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from raptor.core.estimate import Estimate
from raptor.core.serialize import key
from raptor.render.tables import Table

if TYPE_CHECKING:
    from raptor.render.charts import Figure
    from raptor.runtime.rundir import Record

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class FigureEntry:
    """A figure of a verb.

    Parameters
    ----------
    name, verb
        Stem of its file names, and the verb that draws it.
    draw
        `draw(result, name)` returns a `Figure`, or None if there is nothing to draw; `name` is the model's name.
    section
        Section of the page; None for a figure that is only a file of the run.
    caption
        One or two sentences that explain the figure.
    paper
        Number of the corresponding figure in the paper, or None.
    wide
        Whether it takes the whole width of the page.
    order
        Position in its section: lower numbers come first, equal ones in the order of registration.
    on_page
        Whether the page draws it from the result; it is then no file of the run.
    chapter
        Heading inside its section, one of `reporting.sections.CHAPTERS`; None to stand before all chapters.
    title
        Heading of the figure on the page; by default that of its chart.
    beside
        Heading of the figure in which a page of several models shows the first panel of each; None for no such figure.
    """

    name: str
    verb: str
    draw: Callable[..., Figure | None]
    section: str | None
    caption: str
    paper: str | None
    wide: bool
    order: int = 50
    on_page: bool = False
    chapter: str | None = None
    title: str | None = None
    beside: str | None = None


@dataclass(frozen=True)
class PageEntry:
    """A table, or sentences, that the page shows of each record of a verb.

    Parameters
    ----------
    verb, section
        Whose records, and the section of the page.
    make
        `make(record)` gives the table, or the sentences.
    unless
        A verb that shows the same better: where the page has a run of it, this is left out.
    """

    verb: str
    section: str
    make: Callable[[Record[Any]], Any]
    unless: str | None = None


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder of evidence on the block-recurrent hypothesis.

    Parameters
    ----------
    rung
        `form`, `interchangeable`, `rewritable` or `same_system`.
    held
        True, false, or None if inconclusive; always None for the form of similarity, which only describes.
    value
        What was measured, with its interval; None where it was not.
    null
        The same without recurrence; None where it was not measured.
    text
        The result in a sentence.
    model
        Name of the model.
    short
        The same in a few words, for the headline; this and what follows is not in result.json.
    value_key, null_key
        Keys of both in the result.json that they come from.
    run
        Name of the run directory with that file.
    """

    rung: str
    held: bool | None
    value: Estimate[float] | None = key(None, name="value", ci="ci")
    null: float | None = None
    text: str = ""
    model: str | None = key(None, omit_none=True)
    short: str = key("", skip=True)
    value_key: str = key("", skip=True)
    null_key: str = key("", skip=True)
    run: str = key("", skip=True)


# Rungs in order, with what people read.
RUNGS = {
    "form": "How does the similarity of tokens change along depth?",
    "interchangeable": "Are the layers of a phase interchangeable?",
    "rewritable": "Are the layers easier to replace by a few weight-tied blocks than those of a control network?",
    "same_system": "Does the surrogate have the same dynamics as the model?",
}
EVIDENCE: list[tuple[str, Callable[[Record[Any]], Rung | None]]] = []
FIGURES: dict[tuple[str, str], FigureEntry] = {}
TOGETHER: dict[str, FigureEntry] = {}
TABLES: list[PageEntry] = []
SENTENCES: list[PageEntry] = []


def figure(
    verb: str,
    name: str,
    section: str | None,
    caption: str,
    paper: str | None = None,
    wide: bool = False,
    order: int = 50,
    on_page: bool = False,
    chapter: str | None = None,
    title: str | None = None,
    beside: str | None = None,
) -> Callable[[Function], Function]:
    """Register a function as a figure of a verb; see `FigureEntry`."""

    def register(draw: Function) -> Function:
        FIGURES[verb, name] = FigureEntry(
            name, verb, draw, section, caption, paper, wide, order, on_page, chapter, title, beside
        )
        return draw

    return register


def figure_of_runs(name: str, section: str, caption: str, **how: Any) -> Callable[[Function], Function]:
    """Register a function from the records of one model, a list for each verb, to a `Figure` of the page or None.

    The figure compares several runs, such as all surrogates; `how` is as in `FigureEntry`.
    """

    def register(draw: Function) -> Function:
        entry = {"paper": None, "wide": True, **how}
        TOGETHER[name] = FigureEntry(name, "", draw, section, caption, on_page=True, **entry)
        return draw

    return register


def page_table(verb: str, section: str, unless: str | None = None) -> Callable[[Function], Function]:
    """Register a function from a record to a `Table` (or None); tables with one title become one table of all runs."""

    def register(make: Function) -> Function:
        TABLES.append(PageEntry(verb, section, make, unless))
        return make

    return register


def page_sentences(verb: str, section: str, unless: str | None = None) -> Callable[[Function], Function]:
    """Register a function from a record to sentences: each is text, or a tuple of texts and `Number`s.

    Besides the sections of figures, `answer` is the paragraph at the top, `refuted` lists what did not hold, and
    `open` what is undecided.
    """

    def register(make: Function) -> Function:
        SENTENCES.append(PageEntry(verb, section, make, unless))
        return make

    return register


def evidence(verb: str) -> Callable[[Function], Function]:
    """Register a function from a record of a verb to a `Rung`, or None where the record has no such evidence."""

    def register(make: Function) -> Function:
        EVIDENCE.append((verb, make))
        return make

    return register


def figures_of(verb: str, on_page: bool = False) -> list[FigureEntry]:
    """Return the figures that a verb draws in a run, or that the page draws, in the order of registration."""
    return [entry for (of, _), entry in FIGURES.items() if of == verb and entry.on_page == on_page]


def merged(tables: Iterable[Table]) -> list[Table]:
    """Merge tables with the same title and columns."""
    joined: dict[tuple[str, tuple[str, ...]], Table] = {}
    for table in tables:
        before = joined.get((table.title, table.columns))
        rows = table.rows if before is None else (*before.rows, *table.rows)
        joined[table.title, table.columns] = Table(table.title, table.columns, rows)
    return list(joined.values())
