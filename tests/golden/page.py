"""What is frozen of a page: its sections, figures, numbers and films; its texts apart from them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from comparer import digest
from extraction import VARYING, Extract, table_in, tables_of, titles_of

PROVENANCE = "provenance"  # versions, machines and times: its texts vary


class _Reader(HTMLParser):
    """Collects identities, numbers with their keys, and texts by section."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.figures: list[str] = []
        self.films: list[str] = []
        self.cells: list[list[Any]] = []
        self.texts: dict[str, list[str]] = {}
        self.data = ""
        self._inside: list[str] = []
        self._section = "head"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag in ("meta", "link", "br", "input"):
            return
        self._inside.append(tag)
        if tag == "section":
            self._section = given.get("id") or given.get("class") or "section"
            self.sections.append(self._section)
        elif tag == "figure":
            self.figures.append(given["id"])
        elif tag == "data":
            varies = set(given["data-key"].split("/")) & VARYING
            self.cells.append([given["data-run"], given["data-key"], "#" if varies else given["value"]])
            if varies:
                self._inside[-1] = "varying"
        elif tag == "script" and given.get("id") == "data":
            self._inside[-1] = "json"
        if "data-film" in given:
            self.films.append(given["data-film"])

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, text: str) -> None:
        where = self._inside[-1] if self._inside else ""
        if where == "json":
            self.data += text
        elif where in ("script", "style") or not text.strip():
            return
        else:
            self.texts.setdefault(self._section, []).append("#" if where == "varying" else " ".join(text.split()))


def of_page(path: Path) -> Extract:
    """Return values and texts of a page."""
    reader = _Reader()
    reader.feed(path.read_text())
    data = json.loads(reader.data)
    found = Extract()
    found.values["sections"], found.values["figures"] = reader.sections, reader.figures
    found.values["cells"] = [[run, key, _number(value)] for run, key, value in reader.cells]
    for name, figure in data["figures"].items():
        tables = [table for panel in figure["panels"] for table in tables_of(panel)]
        found.values[f"figure {name}"] = {"name": figure["name"], "tables": tables, "csv": table_in(figure["csv"])}
        found.add_text(f"figure {name}", "\n".join(title for panel in figure["panels"] for title in titles_of(panel)))
    for name, film in data["films"].items():
        found.values[f"film {name}"] = {key: _film(value) for key, value in film.items() if key != "pictures"}
        found.values[f"film {name}"]["pictures"] = len(film["pictures"])
    found.values["films"] = reader.films
    for section, texts in reader.texts.items():
        if not section.endswith(PROVENANCE):
            found.add_text(f"section {section}", "\n".join(texts))
    return found


def _film(value: Any) -> Any:
    """Return bytes, which are base64 in the page, by their lengths and a digest."""
    if isinstance(value, dict):
        return {key: _film(item) for key, item in value.items()}
    if isinstance(value, str) and len(value) > 200:
        import base64

        return digest(list(base64.b64decode(value)))
    return value


def _number(text: str) -> Any:
    """Return the number that a text is; other texts as they are."""
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text) else text
