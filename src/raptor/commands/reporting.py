"""What `raptor report` does: the page of run directories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from raptor.errors import OptionError, OutputError, one_line
from raptor.files import writing
from raptor.options import Common
from raptor.reporting.answer import answer
from raptor.reporting.collect import Piece, collect, is_own
from raptor.reporting.drawing import pictures
from raptor.reporting.page import linked_figures, made, render
from raptor.run import Run, to_json

PAGE, FIGURES = "report.html", "figures"
PICTURES = ("png", "svg", "pdf", "csv")


def write_page(folders: Sequence[Path], page: Path) -> list[str]:
    """Write the page of run directories; return what is missing of them."""
    subjects = collect(folders)
    text = render(subjects)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with writing(page) as file:
            file.write(text.encode(errors="backslashreplace"))  # names of files may be any bytes
        seen: Counter[str] = Counter()
        for subject in subjects:
            for piece in subject.pieces:
                seen[name := piece.folder.name] += 1
                stem = name if seen[name] == 1 else f"{name}-{seen[name]}"
                subject.missing += _figures_beside(page.parent / FIGURES, piece, stem)
    except OSError as error:
        raise OutputError(f"cannot write {str(page)!r}: {one_line(error)}") from error
    return [note for subject in subjects for note in subject.missing]


def _figures_beside(folder: Path, piece: Piece, stem: str) -> list[str]:
    """Put the figures of a run beside the page, with names that begin with `stem`.

    The linked one is drawn here, with its first k. Return what cannot be drawn.
    """
    folder.mkdir(exist_ok=True)
    for drawn in piece.figures:
        for ending in PICTURES:
            file = piece.folder / FIGURES / f"{drawn.name}.{ending}"
            if is_own(piece.folder, file):
                copyfile(file, folder / f"{stem}-{file.name}")
    for drawn in linked_figures(piece, []):
        try:
            versions = pictures(to_json(drawn.spec))
        except ValueError as error:  # what the renderer cannot make of a result from somewhere
            return [f"{piece.folder.name}: the figure {drawn.name} cannot be drawn ({one_line(error)})"]
        for ending, content in versions.items():
            with writing(folder / f"{stem}-{drawn.name}.{ending}") as opened:
                opened.write(content)
    return []


def answers(folders: Sequence[Path]) -> list[str]:
    """Return what the page says first, as plain text."""
    said = [made(answer, subject, []) or [] for subject in collect(folders)]
    return [sentence.striptags() for sentences in said for sentence in sentences]


def report_runs(runs: Sequence[Path], common: Common) -> dict[str, Any]:
    """Build the page of any set of run directories; --out names the file, or a directory for it."""
    if not runs:
        raise OptionError("a report shows run directories: name some")
    out = common.out or Path(PAGE)
    page = out if out.suffix == ".html" else out / PAGE
    with Run("report", {"runs": [str(run) for run in runs]}, None, common.seed) as run:
        missing = write_page(runs, page)
        return run.finish({"report": str(page), "missing": missing}, images=0, layers=0)
