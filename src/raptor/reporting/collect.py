"""What run directories hold, for the report: everything that can be read, and a note of what cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raptor.errors import OutputError, one_line
from raptor.files import read_json
from raptor.reporting.drawing import SPEC

LARGEST = 50_000_000  # bytes of a file of a run directory that is worth reading
ORDER = ("inspect", "train", "phases", "distill", "fidelity", "probe", "table1", "dynamics", "intervene", "film")
WHOLE = "run"  # the verb whose directory holds one directory a stage


@dataclass(frozen=True)
class Drawn:
    """A figure of a run: its declaration, and its table where there is one."""

    name: str
    spec: dict[str, Any]
    csv: str | None


@dataclass(frozen=True)
class Piece:
    """A run directory: what was asked, what came out, and its figures."""

    folder: Path
    verb: str
    config: dict[str, Any]
    result: dict[str, Any]
    figures: tuple[Drawn, ...]


@dataclass
class Subject:
    """A model of the page: its runs, and what is missing of them."""

    title: str
    pieces: list[Piece] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def of(self, verb: str) -> list[Piece]:
        """Return the runs of a verb."""
        return [piece for piece in self.pieces if piece.verb == verb]


def collect(folders: Sequence[Path]) -> list[Subject]:
    """Read run directories; each is a subject of its own, or a part of one where it holds one stage of its model."""
    subjects: dict[str, Subject] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            raise OutputError(f"there is no run directory {str(folder)!r}")
        _add(folder, subjects)
    for subject in subjects.values():
        subject.pieces.sort(key=lambda piece: ORDER.index(piece.verb) if piece.verb in ORDER else len(ORDER))
    return list(subjects.values())


def _add(folder: Path, subjects: dict[str, Subject]) -> None:
    """Add what a directory holds: one run, the stages of a whole pipeline, or several runs."""
    config, note = _json(folder, "config.json")
    parts = sorted(path.parent for path in folder.glob("*/config.json"))
    if config is None and not parts:
        raise OutputError(f"{str(folder)!r} is no run directory: {note}")
    if config is None and not (folder / "config.json").exists():
        for part in parts:  # a directory of runs
            _add(part, subjects)
        return
    whole = config is None or config.get("verb") == WHOLE
    title = str(config["model"]) if whole and config and "model" in config else folder.name if whole else None
    for part in parts if whole else [folder]:
        piece, notes = _piece(part)
        own = title or (str(_model_of(piece)) if piece else folder.name)
        subject = subjects.setdefault(own, Subject(own))
        subject.missing += notes
        if piece is not None:
            subject.pieces.append(piece)
    if whole:
        assert title is not None
        told = _unfinished(folder) if config is not None else [f"{folder.name}: {note}"]
        subjects.setdefault(title, Subject(title)).missing += told


def _unfinished(folder: Path) -> list[str]:
    result, note = _json(folder, "result.json")
    if result is None:
        return [f"the whole run did not finish ({note})"]
    told = []
    stages = result.get("stages")
    for stage in stages if isinstance(stages, list) else []:
        if not isinstance(stage, dict) or "stage" not in stage:
            told.append("the whole run tells of a stage without its name")
        elif stage.get("error"):
            told.append(f"{stage['stage']} failed: {stage['error']}")
        elif stage.get("not_done"):
            told.append(f"{stage['stage']} was not done: {stage['not_done']}")
    return told


def _model_of(piece: Piece) -> str:
    for source in (piece.config, piece.result):
        for key in ("teacher", "model", "surrogate", "study", "matrix"):
            if source.get(key):
                return str(source[key])
    models = piece.config.get("models")
    return ", ".join(map(str, models)) if models and isinstance(models, list) else piece.folder.name


def _piece(folder: Path) -> tuple[Piece | None, list[str]]:
    """Return what a directory holds, and what is wrong with it."""
    config, note = _json(folder, "config.json")
    if config is None:
        return None, [f"{folder.name}: {note}"]
    result, note = _json(folder, "result.json")
    if result is None:
        return None, [f"{folder.name} ({config.get('verb')}) has no result: {note}"]
    figures, notes = [], []
    for name, spec, csv in _figures(folder, result):
        if isinstance(spec, str):
            notes.append(f"{folder.name}: the figure {name} is missing: {spec}")
        else:
            figures.append(Drawn(name, spec, csv))
    return Piece(folder, str(config.get("verb")), config, result, tuple(figures)), notes


def _figures(folder: Path, result: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | str, str | None]]:
    for path in (path for body in bodies(result) for path in listed(body, "figures")):
        name = Path(str(path)).stem
        spec, note = _json(folder, f"figures/{name}.{SPEC}")
        table = folder / "figures" / f"{name}.csv"
        try:
            csv = table.read_text() if is_own(folder, table) and table.stat().st_size < LARGEST else None
        except (OSError, UnicodeDecodeError):
            csv = None
        if spec is not None:
            spec.pop("usermeta", None)  # options of the drawing library, which are the page's to choose
        yield name, note if spec is None else spec, csv


def bodies(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a result, and the parts of it that are one model's each."""
    return [result, *(body for body in listed(result, "models") if isinstance(body, dict))]


def listed(body: dict[str, Any], key: str) -> list[Any]:
    """Return a list of a result; none where it has anything else there."""
    found = body.get(key)
    return found if isinstance(found, list) else []


def is_own(folder: Path, file: Path) -> bool:
    """Whether there is such a file in a run directory: a link may lead to what nobody wants on a page."""
    try:
        return file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # names that no file can have, and links in a circle
        return False


def _json(folder: Path, name: str) -> tuple[dict[str, Any] | None, str]:
    """Return a JSON object of a run directory, or why there is none."""
    file = folder / name
    try:
        if not file.exists():
            return None, f"there is no {file.name}"
        if not is_own(folder, file):
            return None, f"{file.name} is no file of this directory"
        if file.stat().st_size > LARGEST:
            return None, f"{file.name} has {file.stat().st_size:,} bytes, too many"
        found = read_json(file)
    except (OSError, ValueError) as error:
        return None, f"{file.name} cannot be read ({one_line(error)})"
    return (found, "") if isinstance(found, dict) else (None, f"{file.name} holds no object")
