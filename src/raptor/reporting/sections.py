"""Sections of the page, and what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from raptor.render.tables import Cell, Table, to_html

# Sections of the page, in order. A figure, a table or a sentence names the section that it belongs to.
SECTIONS = {
    "depth": "Depth",
    "film": "Depth film",
    "surrogate": "Surrogate",
    "worth": "Probes",
    "dynamics": "Dynamics",
    "interventions": "Layer interventions",
    "studies": "Studies",
    "provenance": "Provenance",
}
# Sentences may also belong to the summary at the top, or to its list of claims that did not hold.
ANSWER, REFUTED = "answer", "refuted"


@dataclass(frozen=True)
class PageTable:
    """A table of the page.

    Parameters
    ----------
    title, columns
        What it shows, and names of its columns.
    rows
        Cells as html.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Markup, ...]]


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page.

    Parameters
    ----------
    id
        Identifier on the page.
    caption, paper, wide
        How to read it, its number in the paper, and whether it takes the whole width.
    order
        Position in its section.
    """

    id: str
    caption: str
    paper: str | None
    wide: bool
    order: tuple[int, int]


@dataclass
class Section:
    """A section of the page: sentences, figures, films and tables.

    Parameters
    ----------
    id, title
        Identifier on the page, and heading.
    sentences, figures, films, tables
        What stands in it; films by their identifiers.
    """

    id: str
    title: str
    sentences: list[Markup] = field(default_factory=list)
    figures: list[PageFigure] = field(default_factory=list)
    films: list[str] = field(default_factory=list)
    tables: list[PageTable] = field(default_factory=list)

    @property
    def filled(self) -> bool:
        """Whether there is anything in it beside sentences."""
        return bool(self.figures or self.films or self.tables)

    def add_table(self, table: Table, run: str) -> None:
        """Add the rows of a table of a run to the one of the same title and columns, or else add the table."""
        rows = [tuple(to_html(cell, run) for cell in row) for row in table.rows]
        for other in self.tables:
            if (other.title, other.columns) == (table.title, table.columns):
                other.rows.extend(row for row in rows if row not in other.rows)
                return
        if rows:
            self.tables.append(PageTable(table.title, table.columns, rows))


def sentence_html(sentence: str | Sequence[Cell], run: str) -> Markup:
    """Return a sentence, which is text or a sequence of texts and numbers, as html."""
    cells = (sentence,) if isinstance(sentence, str) else sentence
    return Markup("").join(to_html(cell, run) for cell in cells)
