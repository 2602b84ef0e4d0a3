"""Sections of the page, and what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from raptor.render.tables import Cell, Table, to_html

# Sections of the page, in order. A figure, a table or a sentence names the section that it belongs to.
SECTIONS = {
    "models": "Models side by side",
    "depth": "Depth",
    "film": "Depth film",
    "surrogate": "Surrogates",
    "worth": "Probes",
    "dynamics": "Dynamics",
    "interventions": "Layer interventions",
    "studies": "Studies",
    "provenance": "Provenance",
}
# Chapters of a section, in order: heading, and what its figures answer. A figure names its chapter.
CHAPTERS = {
    "converge": ("1. Converge", "Tokens approach their final direction. Where do they arrive, and does each class have "
                 "a place of its own?"),
    "reorient": ("2. Reorient", "Tokens turn on the way. Which turn, and at which layers?"),
    "together": ("3. Move together", "Do the tokens of an image take the same step, in few directions?"),
    "correct": ("4. Correct", "A token is perturbed at one layer. Do the later layers undo it?"),
    "linearise": ("5. Linearise", "How much of depth is one linear map, applied again and again?"),
    "further": ("Further measures", "Other measures that were registered."),
}  # fmt: skip
# Sentences may also belong to the summary at the top, or to its lists of claims that did not hold, or are open.
ANSWER, REFUTED, OPEN = "answer", "refuted", "open"


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
    name, title
        Its name, and its heading.
    caption, paper, wide
        How to read it, its number in the paper, and whether it takes the whole width.
    order
        Position in its section.
    chapter
        Chapter of its section; None for none.
    about
        What it was measured on, such as the number of images.
    """

    id: str
    name: str
    title: str
    caption: str
    paper: str | None
    wide: bool
    order: tuple[int, int]
    chapter: str | None = None
    about: str = ""


@dataclass(frozen=True)
class Chapter:
    """Figures of a section under one heading.

    Parameters
    ----------
    title, intro
        Heading and what the figures answer; empty for figures that stand before all chapters.
    figures
        The figures.
    """

    title: str
    intro: str
    figures: list[PageFigure]


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
    def chapters(self) -> list[Chapter]:
        """Its figures by chapter, those without one first."""
        known = [None, *CHAPTERS, *dict.fromkeys(one.chapter for one in self.figures if one.chapter not in CHAPTERS)]
        found = []
        for name in dict.fromkeys(known):
            figures = [one for one in self.figures if one.chapter == name]
            title, intro = ("", "") if name is None else CHAPTERS.get(name, (name.replace("_", " ").capitalize(), ""))
            if figures:
                found.append(Chapter(title, intro, _filling(figures)))
        return found

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


def _filling(figures: list[PageFigure]) -> list[PageFigure]:
    """Return figures for two columns: of an odd number of narrow ones, the last takes the whole width."""
    narrow = [figure for figure in figures if not figure.wide]
    last = narrow[-1] if len(narrow) % 2 else None
    return [replace(figure, wide=True) if figure is last else figure for figure in figures]


def sentence_html(sentence: str | Sequence[Cell], run: str) -> Markup:
    """Return a sentence, which is text or a sequence of texts and numbers, as html."""
    cells = (sentence,) if isinstance(sentence, str) else sentence
    return Markup("").join(to_html(cell, run) for cell in cells)
