"""The part of the page that shows one model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from markupsafe import Markup

from raptor.core.serialize import to_json, to_plain
from raptor.errors import OutputError, one_line
from raptor.film.arrays import ARRAYS, film_data
from raptor.render.charts import rows_in, spec_of
from raptor.render.charts import table as csv_of
from raptor.render.panels import panels
from raptor.render.registry import FIGURES, SENTENCES, TABLES, TOGETHER, FigureEntry, PageEntry, figures_of
from raptor.render.tables import Table
from raptor.reporting.collect import Json, SavedFigure, SavedRun, Subject, is_own
from raptor.reporting.depth import depth_of
from raptor.reporting.ladder import headline, ladder, lines, rung_line
from raptor.reporting.provenance import provenance
from raptor.reporting.sections import ANSWER, OPEN, REFUTED, SECTIONS, PageFigure, Section, sentence_html
from raptor.reporting.top import citation, measured_on, top_tiles
from raptor.runtime.verbs import VERBS, import_features

T = TypeVar("T")


class SubjectPage:
    """The part of the page that shows one model.

    Parameters
    ----------
    subject
        Its runs.
    identity
        Beginning of identifiers on the page.
    data
        What the page's script reads: the depth of models, and panels of figures and films by identifier.
    films
        Number of films of the whole page.
    """

    def __init__(self, subject: Subject, identity: str, data: Json, films: int = 1):
        self.films = films
        self.subject, self.identity, self.data = subject, identity, data
        self.missing = subject.missing
        self.sections = {name: Section(name, title) for name, title in SECTIONS.items()}
        self.top: dict[str, list[Markup]] = {ANSWER: [], REFUTED: [], OPEN: []}
        self.drawn = {(run.verb, stem_of(run.verb, one.name)) for run in subject.runs for one in run.figures}

    def shown(self) -> dict[str, Any]:
        """Return what the template reads."""
        self.data["models"][self.identity] = to_plain(depth_of(self.subject))
        for at, run in enumerate(self.subject.runs):
            own = f"{self.identity}-{at}-{run.name}".replace(" ", "-")
            run.drawn[:] = page_figures(run, self.missing)
            for figure in [*run.drawn, *run.figures]:
                self._add_figure(figure, run, own)
            if run.verb == "film":
                self._add_film(run, own)
        self._add_figures_of_runs()
        self.add_sentences()
        self._add_tables()
        rungs, tiles = ladder(self.subject), top_tiles(self.subject)
        for section in self.sections.values():
            section.figures.sort(key=lambda figure: figure.order)
        return {
            "id": self.identity,
            "title": self.subject.short,
            "headline": headline(rungs),
            "ladder": [rung_line(rung) for rung in rungs],
            "tiles": tiles,
            "measured_on": measured_on(self.subject),
            "citation": citation(self.subject, tiles),
            "answer": self.top[ANSWER],
            "refuted": self.top[REFUTED],
            "open": self.top[OPEN],
            "missing": self.missing,
            "sections": [section for section in self.sections.values() if section.filled],
        }

    def _section(self, name: str) -> Section:
        return self.sections.setdefault(name, Section(name, name.replace("_", " ").capitalize()))

    def _made(self, run: SavedRun, make: Callable[[SavedRun], T]) -> T | None:
        """Make a part of the page from a run; where its result lacks what it needs, note it."""
        try:
            return make(run)
        except Exception as error:  # results may come from anybody and hold anything
            self.missing.append(f"{run.name}: its result lacks something that the page shows ({one_line(error)})")
            return None

    def _add_tables(self) -> None:
        """Add the tables that features have registered for their records, and where results come from."""
        for entry in in_page_order(TABLES):
            for run in self._runs_of(entry):
                for table in self._made(run, partial(_tables, entry)) or []:
                    self._section(entry.section).add_table(table, run.name)
        for run in self.subject.runs:
            for table in provenance(run):
                self._section("provenance").add_table(table, run.name)

    def add_sentences(self) -> None:
        """Add the sentences that features have registered for their records."""
        for entry in in_page_order(SENTENCES):
            for run in self._runs_of(entry):
                top = self.top.get(entry.section)
                into = self._section(entry.section).sentences if top is None else top
                made = self._made(run, partial(_sentences, entry)) or []
                into += [sentence for sentence in made if sentence not in into]  # several runs may say the same

    def _runs_of(self, entry: PageEntry) -> list[SavedRun]:
        """Return the runs that an entry shows."""
        if entry.unless is not None and self.subject.of(entry.unless):
            return []
        return [run for run in self.subject.of(entry.verb) if run.record is not None]

    def _add_figure(self, figure: SavedFigure, run: SavedRun, prefix: str) -> None:
        """Place a figure in its section, unless a later verb has drawn the same."""
        stem = stem_of(run.verb, figure.name)
        entry = FIGURES.get((run.verb, stem))
        if entry is None or entry.section is None or self._drawn_later(entry):
            return
        order = (entry.order, list(FIGURES).index((run.verb, stem)))
        images = 0 if run.record is None else run.record.images
        self._place(figure, entry, f"{prefix}-{figure.name}", order, images)

    def _place(
        self, figure: SavedFigure, entry: FigureEntry, identity: str, order: tuple[int, int], images: int = 0
    ) -> None:
        """Add a figure to its section, and its panels to the data of the page; `images` for one drawn by the page."""
        assert entry.section is not None
        try:
            csv = figure.csv or csv_of(rows_in(figure.spec))
            title, about = _titles(figure.spec)
            about = f"n = {images:,} images" if entry.on_page and images else about
            # With null for what is not finite: a browser reads strict JSON, and one figure would cost all others.
            shown = {"panels": to_plain(panels(figure.spec)), "csv": csv, "name": entry.name, "model": self.identity}
        except Exception as error:  # as above
            self.missing.append(f"the figure {figure.name} cannot be used ({one_line(error)})")
            return
        self.data["figures"][identity] = shown
        self._section(entry.section).figures.append(
            PageFigure(
                identity, entry.name, entry.title or title, entry.caption, entry.paper, entry.wide, order,
                entry.chapter, about,
            )
        )  # fmt: skip

    def _add_figures_of_runs(self) -> None:
        """Draw the figures that compare several runs of this model."""
        records = {run.verb: [one.record for one in self.subject.of(run.verb) if one.record is not None]
                   for run in self.subject.runs}  # fmt: skip
        for order, entry in enumerate(TOGETHER.values()):
            try:
                figure = entry.draw(records)
                if figure is None:
                    continue
                saved = SavedFigure(entry.name, json.loads(to_json(spec_of(figure.chart))), csv_of(figure.rows or []))
            except Exception as error:  # as above
                self.missing.append(f"the figure {entry.name} cannot be drawn ({one_line(error)})")
                continue
            self.subject.drawn.append(saved)
            self._place(saved, entry, f"{self.identity}-{entry.name}", (entry.order, order))

    def _drawn_later(self, entry: FigureEntry) -> bool:
        """Whether a later verb has drawn the figure of the same name for the same section, on more images or models."""
        order = list(VERBS)
        later = order[order.index(entry.verb) + 1 :] if entry.verb in order else []
        same = (FIGURES.get((verb, entry.name)) for verb in later if (verb, entry.name) in self.drawn)
        return any(other is not None and other.section == entry.section for other in same)

    def _add_film(self, run: SavedRun, identity: str) -> None:
        if run.record is None:
            return  # which is noted already
        if not is_own(run.folder, run.folder / ARRAYS):
            self.missing.append(f"{run.name}: there is no {ARRAYS}")
            return
        try:
            result = run.record.result
            film = film_data(run.folder / ARRAYS, str(result.phases), result.blocks, self.films)
        except OutputError as error:
            self.missing.append(str(error))
            return
        self._section("film").films.append(identity)
        self.data["films"][identity] = {**to_plain(film), "model": self.identity}


def summary(subject: Subject) -> list[str]:
    """Return the ladder and the summary at the top of a subject's part of the page, as plain text."""
    import_features("text")
    shown = SubjectPage(subject, "", {})
    shown.add_sentences()
    return [*lines(ladder(subject)), *(sentence.striptags() for sentence in shown.top[ANSWER])]


def in_page_order(entries: Sequence[PageEntry]) -> list[PageEntry]:
    """Return entries in the order of the verbs, whichever module was imported first."""
    order = list(VERBS)
    return sorted(entries, key=lambda entry: order.index(entry.verb) if entry.verb in order else len(order))


def _sentences(entry: PageEntry, run: SavedRun) -> list[Markup]:
    assert run.record is not None  # `_runs_of` leaves others out
    return [sentence_html(sentence, run.name) for sentence in entry.make(run.record)]


def _tables(entry: PageEntry, run: SavedRun) -> list[Table]:
    assert run.record is not None
    made = entry.make(run.record)
    return [made] if isinstance(made, Table) else list(made or ())


def stem_of(verb: str, name: str) -> str:
    """Return the name of a figure without the number that it begins with where a run has several models."""
    return name if (verb, name) in FIGURES or not name.split("-")[0].isdigit() else name.partition("-")[2]


def page_figures(run: SavedRun, missing: list[str]) -> list[SavedFigure]:
    """Return the figures that the page draws itself, from the result of a run; notes on others are added."""
    figures = []
    for entry in figures_of(run.verb, on_page=True):
        try:
            figure = None if run.record is None else entry.draw(run.record.result, "")
            if figure is not None:
                figures.append(SavedFigure(entry.name, json.loads(to_json(spec_of(figure.chart))), None))
        except Exception as error:  # as above
            missing.append(f"{run.name}: the figure {entry.name} cannot be drawn ({one_line(error)})")
    return figures


def _titles(spec: Any) -> tuple[str, str]:
    """Return the title of a chart without the name of its model, and its subtitle."""
    title = spec.get("title", "") if isinstance(spec, dict) else ""
    text, below = (title.get("text", ""), title.get("subtitle", "")) if isinstance(title, dict) else (title, "")
    lines = [str(line).rstrip(".") for line in (below if isinstance(below, list) else [below])]
    said = ". ".join(lines)
    return str(text).partition(": ")[0], said if said.startswith("n = ") else said[:1].upper() + said[1:]
