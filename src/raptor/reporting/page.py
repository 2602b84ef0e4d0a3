"""The page: one self-contained file that shows what run directories hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, TypeVar

from jinja2 import Environment
from markupsafe import Markup

from raptor import __version__
from raptor.errors import OutputError, one_line
from raptor.matrix import MOST_LAYERS
from raptor.reporting import tables
from raptor.reporting.answer import answer, did_not_hold, measured, surrogates
from raptor.reporting.captions import CAPTIONS, LINKED, SECTIONS
from raptor.reporting.collect import Drawn, Piece, Subject, bodies, is_own, listed
from raptor.reporting.depth_figure import linked
from raptor.reporting.drawing import rows_in, table
from raptor.reporting.film_data import ARRAYS, film_data
from raptor.reporting.numbers import number
from raptor.reporting.tables import Table
from raptor.run import plain, to_json

WIDE = ("depth", "remains", "fidelity", "basins", "correction", "against", "gallery", "trajectories", "interventions",
        "ranks", "stochastic-depth", "emergence", "ablation")  # fmt: skip


# A verb's figures that these verbs draw too, on more images or of more models.
AGAIN = {"inspect": ("dynamics",), "distill": ("fidelity",)}


@dataclass
class Section:
    """A part of the page: sentences, figures, a film, tables."""

    id: str
    title: str
    words: list[Any] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    films: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    @property
    def filled(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.figures or self.films or self.tables)


def render(subjects: Sequence[Subject]) -> str:
    """Return the page of one or several models."""
    import vl_convert

    data: dict[str, Any] = {"figures": {}, "films": {}}
    shown = [_subject(subject, f"m{index}", data) for index, subject in enumerate(subjects)]
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_asset("page.html.jinja"))
    return template.render(
        title=" and ".join(subject.title for subject in subjects) or "nothing was found",
        subjects=shown,
        beside=_beside(subjects) if len(subjects) > 1 else None,
        version=__version__,
        style=Markup(_asset("page.css")),
        script=Markup(_asset("film.js") + _asset("page.js")),
        vega=Markup(vl_convert.javascript_bundle().replace("</script", "<\\/script")),  # type: ignore[call-arg]
        # Inside a script element nothing may look like its end.
        data=Markup(json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")),
    )


def _asset(name: str) -> str:
    return resources.files("raptor.reporting").joinpath("assets", name).read_text()


def _subject(subject: Subject, identity: str, data: dict[str, Any]) -> dict[str, Any]:
    sections = {name: Section(name, title) for name, title in SECTIONS.items()}
    missing = subject.missing  # what is found to be missing here is added to what was
    known = {(piece.verb, drawn.name) for piece in subject.pieces for drawn in piece.figures}
    for at, piece in enumerate(subject.pieces):
        own = f"{identity}-{at}-{piece.folder.name}".replace(" ", "-")
        for drawn in [*linked_figures(piece, missing), *piece.figures]:
            again = any((verb, drawn.name) in known for verb in AGAIN.get(piece.verb, ()))
            if drawn.name not in LINKED and not again:
                missing += _place(drawn, own, sections, data)
        if piece.verb == "film":
            missing += _film(piece, own, sections["film"], data)
    order = list(CAPTIONS)
    for section in sections.values():
        section.figures.sort(key=lambda figure: order.index(figure["of"]) if figure["of"] in order else len(order))
    _fill(subject, sections, missing)
    kept = [section for section in sections.values() if section.filled]
    kept.append(Section("provenance", "Provenance", tables=made(tables.provenance, subject, missing) or []))
    return {
        "id": identity, "title": subject.title, "answer": made(answer, subject, missing) or [],
        "refuted": made(did_not_hold, subject, missing), "missing": missing, "sections": kept,
    }  # fmt: skip


Made = TypeVar("Made")


def made(make: Callable[[Subject], Made], subject: Subject, missing: list[str]) -> Made | None:
    """Make a part of the page; a result that lacks what it needs, such as one of another version, is noted."""
    try:
        return make(subject)
    except Exception as error:  # results may come from anybody, and hold anything
        missing.append(f"{make.__name__.replace('_', ' ')}: results lack what it needs ({one_line(error)})")
        return None


def _fill(subject: Subject, sections: dict[str, Section], missing: list[str]) -> None:
    """Add sentences and tables."""
    for piece in subject.of("phases"):
        for body in bodies(piece.result):
            sections["depth"].words += listed(body, "words")
    for name, make in (
        ("surrogate", tables.cost), ("worth", tables.probes), ("dynamics", tables.claims), ("studies", tables.studies),
    ):  # fmt: skip
        found = made(make, subject, missing)
        if found is not None and found.rows:
            sections[name].tables.append(found)


def linked_figures(piece: Piece, missing: list[str]) -> list[Drawn]:
    """Return the linked figure of a model's phases."""
    if piece.verb != "phases" or "by_k" not in piece.result:
        return []
    try:
        if piece.result["layers"] > MOST_LAYERS:
            raise ValueError(f"there are at most {MOST_LAYERS} layers")
        return [Drawn("depth", json.loads(to_json(linked(piece.result).to_dict())), None)]
    except Exception as error:  # as above
        missing.append(f"{piece.folder.name}: its result lacks what the figure of depth needs ({one_line(error)})")
        return []


def _place(drawn: Drawn, prefix: str, sections: dict[str, Section], data: dict[str, Any]) -> list[str]:
    """Put a figure into its section; return what is wrong with it."""
    # Figures of several models in one run begin with their number.
    of = drawn.name if drawn.name in CAPTIONS else drawn.name.partition("-")[2]
    caption = CAPTIONS.get(of)
    if caption is None or of in LINKED:
        return []
    own = f"{prefix}-{drawn.name}"
    try:
        csv = drawn.csv or table(rows_in(drawn.spec))
        # With null for what is not finite: a browser reads JSON proper, and one figure would cost all others.
        data["figures"][own] = {"spec": plain(drawn.spec), "csv": csv, "name": drawn.name}
    except Exception as error:  # as above
        return [f"the figure {drawn.name} cannot be used ({one_line(error)})"]
    sections[caption.section].figures.append(
        {"id": own, "of": of, "how": caption.how, "paper": caption.paper, "wide": of in WIDE}
    )  # fmt: skip
    return []


def _film(piece: Piece, own: str, section: Section, data: dict[str, Any]) -> list[str]:
    if not is_own(piece.folder, piece.folder / ARRAYS):
        return [f"{piece.folder.name}: there is no {ARRAYS}"]
    try:
        film = film_data(piece.folder / ARRAYS, str(piece.result.get("phases") or ""))
        share = float(sum(piece.result.get("explained", [])))
    except OutputError as error:
        return [str(error)]
    except (TypeError, ValueError) as error:
        return [f"{piece.folder.name}: its result lacks what the film needs ({one_line(error)})"]
    section.films.append(own)
    data["films"][own] = plain(film)
    section.words.append(
        "Every picture is a layer: patch tokens on the unit sphere, through three principal directions of the "
        f"teacher's at all layers ({share:.0%} of its variance), as red, green and blue. Tokens that point the same "
        "way have the same colour."
    )
    return []


def _beside(subjects: Sequence[Subject]) -> Table:
    """Return the models of a page in one table."""
    rows = []
    for subject in subjects:
        phases, worth = subject.of("phases"), surrogates(subject)
        cells: list[Any] = [subject.title]
        for key in ("layers", "verdict", "k", "phases"):
            cells.append(number(phases[0], key) if phases else "")
        at = measured(worth[0]) if worth else ""
        for key, form in ((f"{at}r2/all/-1", ".3f"), (f"{at}recovered", ".1%")):
            try:
                cells.append(number(worth[0], key, form) if worth else "")
            except (TypeError, ValueError):
                cells.append("")
        rows.append(tuple(cells))
    columns = ("model", "layers", "verdict", "k", "phases", "R2 of its surrogate, last layer", "accuracy recovered")
    return Table("Models", columns, rows)
