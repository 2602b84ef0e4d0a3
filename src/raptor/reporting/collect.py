"""Read run directories for the page: everything that can be read, and notes on what cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raptor.core.deserialize import from_plain
from raptor.core.json_values import ResultFormatError
from raptor.errors import OutputError, one_line
from raptor.render.charts import SPEC
from raptor.runtime.files import read_json
from raptor.runtime.rundir import Record
from raptor.runtime.verbs import VERBS, find_result_type, import_features

LARGEST = 50_000_000  # bytes; larger files of a run directory are not read
PIPELINE = "run"  # the verb whose directory has one directory per stage

Json = dict[str, Any]  # a JSON object from anywhere


@dataclass(frozen=True)
class SavedFigure:
    """A figure of a run directory.

    Parameters
    ----------
    name
        Stem of its files.
    spec
        Its Vega-Lite specification.
    csv
        Its numbers as a table; None where there is no such file.
    """

    name: str
    spec: Json
    csv: str | None


@dataclass(frozen=True)
class SavedRun:
    """A run directory.

    Parameters
    ----------
    folder, verb
        The directory, and the verb that wrote it.
    config, result
        Its config.json and result.json.
    record
        The result as the verb's dataclass; None where result.json cannot be read as one.
    figures
        Figures that result.json lists and that can be read.
    drawn
        Figures that the page draws itself, once it is rendered.
    """

    folder: Path
    verb: str
    config: Json
    result: Json
    record: Record[Any] | None
    figures: tuple[SavedFigure, ...]
    drawn: list[SavedFigure] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.folder.name


@dataclass
class Subject:
    """A model of the page.

    Parameters
    ----------
    title, missing
        Its name, and notes on what cannot be read.
    runs
        Its run directories, in the order of a workflow.
    command
        The command that made all runs; empty where each run has its own.
    drawn
        Figures of several runs, once the page is rendered.
    """

    title: str
    runs: list[SavedRun] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    command: str = ""
    drawn: list[SavedFigure] = field(default_factory=list)

    @property
    def short(self) -> str:
        """The name that headings show: of a path, its last part."""
        return Path(self.title).name if Path(self.title).is_absolute() else self.title

    def of(self, verb: str) -> list[SavedRun]:
        """Return the runs of a verb."""
        return [run for run in self.runs if run.verb == verb]


def collect(folders: Sequence[Path]) -> list[Subject]:
    """Read run directories; those of one model become one subject.

    Parameters
    ----------
    folders
        Directories of single runs, of whole pipelines, or directories of runs.
    """
    import_features("command")  # registers the dataclasses of results
    subjects: dict[str, Subject] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            raise OutputError(f"there is no run directory {str(folder)!r}")
        _add(folder, subjects)
    order = list(VERBS)
    for subject in subjects.values():
        subject.runs.sort(key=lambda run: order.index(run.verb) if run.verb in order else len(order))
    return list(subjects.values())


def _add(folder: Path, subjects: dict[str, Subject]) -> None:
    """Add what a directory has: one run, the stages of a pipeline, or several runs."""
    config, note = _json(folder, "config.json")
    parts = sorted(path.parent for path in folder.glob("*/config.json"))
    if config is None and not parts:
        raise OutputError(f"{str(folder)!r} is not a run directory: {note}")
    if config is None and not (folder / "config.json").exists():
        for part in parts:  # a directory of runs
            _add(part, subjects)
        return
    whole = config is None or config.get("verb") == PIPELINE
    title = str(config["model"]) if whole and config and "model" in config else folder.name if whole else None
    for part in parts if whole else [folder]:
        run, notes = _read_run(part)
        own = title or (_model_of(run) if run else folder.name)
        subject = subjects.setdefault(own, Subject(own))
        subject.missing += notes
        if run is not None:
            subject.runs.append(run)
    if title is not None:
        notes = _unfinished(folder) if config is not None else [f"{folder.name}: {note}"]
        subject = subjects.setdefault(title, Subject(title))
        subject.missing += notes
        if config is not None:
            subject.command = command_of(config)


def command_of(config: Json) -> str:
    """Return the command line of a run from its configuration."""
    return " ".join(["raptor", *map(str, as_list(config.get("command")) or [config.get("verb")])])


def _unfinished(folder: Path) -> list[str]:
    result, note = _json(folder, "result.json")
    if result is None:
        return [f"the pipeline did not finish ({note})"]
    notes = []
    for stage in as_list(result.get("stages")):
        if not isinstance(stage, dict) or "stage" not in stage:
            notes.append("the pipeline lists a stage without a name")
        elif stage.get("error"):
            notes.append(f"{stage['stage']} failed: {stage['error']}")
        elif stage.get("not_done"):
            notes.append(f"{stage['stage']} was skipped: {stage['not_done']}")
    return notes


def _model_of(run: SavedRun) -> str:
    for key in ("teacher", "model", "surrogate", "study", "matrix"):
        for source in (run.config, run.result):
            if source.get(key):
                return str(source[key])
    models = as_list(run.config.get("models"))
    return ", ".join(map(str, models)) if models else run.name


def _read_run(folder: Path) -> tuple[SavedRun | None, list[str]]:
    """Return what a directory has, and notes on what cannot be read."""
    config, note = _json(folder, "config.json")
    if config is None:
        return None, [f"{folder.name}: {note}"]
    verb = str(config.get("verb"))
    result, note = _json(folder, "result.json")
    if result is None:
        return None, [f"{folder.name} ({verb}) has no result: {note}"]
    record, notes = _record(folder, verb, result)
    figures = []
    for name, spec, csv in _figures(folder, result):
        if isinstance(spec, str):
            notes.append(f"{folder.name}: the figure {name} is missing: {spec}")
        else:
            figures.append(SavedFigure(name, spec, csv))
    return SavedRun(folder, verb, config, result, record, tuple(figures)), notes


def _record(folder: Path, verb: str, result: Json) -> tuple[Record[Any] | None, list[str]]:
    """Read a result as the dataclass of its verb; return it, or a note that names the key that is wrong."""
    kind = find_result_type(verb)
    if kind is None:
        return None, []
    try:
        hint: Any = Record
        record: Record[Any] = from_plain(hint[kind], result)
        return replace(record, out=folder), []
    except Exception as error:  # results may come from anybody and hold anything
        problem = str(error) if isinstance(error, ResultFormatError) else one_line(error)
        return None, [f"{folder.name}: result.json cannot be read as a result of {verb}: {problem}"]


def _figures(folder: Path, result: Json) -> Iterator[tuple[str, Json | str, str | None]]:
    """Yield name, specification (or why there is none) and table of every figure that a result lists."""
    bodies = [result, *(body for body in as_list(result.get("models")) if isinstance(body, dict))]
    for path in (path for body in bodies for path in as_list(body.get("figures"))):
        name = Path(str(path)).stem
        spec, note = _json(folder, f"figures/{name}.{SPEC}")
        table = folder / "figures" / f"{name}.csv"
        try:
            csv = table.read_text() if is_own(folder, table) and table.stat().st_size < LARGEST else None
        except (OSError, UnicodeDecodeError):
            csv = None
        if spec is not None:
            spec.pop("usermeta", None)  # options of the drawing library, which the page chooses
        yield name, note if spec is None else spec, csv


def as_list(value: Any) -> list[Any]:
    """Return a JSON value that should be a list; an empty list where it is anything else."""
    return value if isinstance(value, list) else []


def is_own(folder: Path, file: Path) -> bool:
    """Whether a run directory has such a file: links to files elsewhere are not followed."""
    try:
        return file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # names that no file can have, and links in a circle
        return False


def _json(folder: Path, name: str) -> tuple[Json | None, str]:
    """Return a JSON object of a run directory, or why there is none."""
    file = folder / name
    try:
        if not file.exists():
            return None, f"there is no {file.name}"
        if not is_own(folder, file):
            return None, f"{file.name} is not a file of this directory"
        if file.stat().st_size > LARGEST:
            return None, f"{file.name} has {file.stat().st_size:,} bytes, too many"
        found = read_json(file)
    except (OSError, ValueError) as error:
        return None, f"{file.name} cannot be read ({one_line(error)})"
    return (found, "") if isinstance(found, dict) else (None, f"{file.name} is not a JSON object")
