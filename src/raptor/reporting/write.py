"""Write the page of run directories, with their figures beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile

from raptor.core.serialize import to_json
from raptor.errors import OutputError, one_line
from raptor.render.charts import pictures
from raptor.reporting.collect import SavedFigure, SavedRun, collect, is_own
from raptor.reporting.page import render
from raptor.runtime.files import writing

PAGE, FIGURES = "report.html", "figures"
COPIED = (".png", ".svg", ".pdf", "-single.svg", "-single.pdf", ".csv")  # endings of the files of a figure


def write_page(folders: Sequence[Path], page: Path) -> list[str]:
    """Write the page of run directories; return notes on what is missing of them.

    Parameters
    ----------
    folders
        Run directories.
    page
        The file to write; figures go to `figures/` beside it.
    """
    subjects = collect(folders)
    text = render(subjects, page.parent)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with writing(page) as file:
            file.write(text.encode(errors="backslashreplace"))  # names of files may be any bytes
        seen: Counter[str] = Counter()
        for subject in subjects:
            for run in subject.runs:
                seen[run.name] += 1
                stem = run.name if seen[run.name] == 1 else f"{run.name}-{seen[run.name]}"
                copied = page.parent / FIGURES
                _copy(copied, run, stem)
                subject.missing += _draw(copied, run.drawn, run.name, stem)
        for number, subject in enumerate(subjects, 1):
            stem = "page" if len(subjects) == 1 else f"page-{number}"
            subject.missing += _draw(page.parent / FIGURES, subject.drawn, subject.title, stem)
    except OSError as error:
        raise OutputError(f"cannot write {str(page)!r}: {one_line(error)}") from error
    return [note for subject in subjects for note in subject.missing]


def _copy(folder: Path, run: SavedRun, stem: str) -> None:
    """Copy the figures of a run, with names that begin with `stem`."""
    folder.mkdir(exist_ok=True)
    for figure in run.figures:
        for ending in COPIED:
            file = run.folder / FIGURES / f"{figure.name}{ending}"
            if is_own(run.folder, file):
                copyfile(file, folder / f"{stem}-{file.name}")


def _draw(folder: Path, figures: Sequence[SavedFigure], name: str, stem: str) -> list[str]:
    """Draw the figures that the page draws itself; return notes on what cannot be drawn."""
    notes = []
    folder.mkdir(exist_ok=True)
    for figure in figures:
        try:
            versions = pictures(to_json(figure.spec))
        except ValueError as error:  # the renderer cannot draw every specification
            notes.append(f"{name}: the figure {figure.name} cannot be drawn ({one_line(error)})")
            continue
        for ending, content in versions.items():
            with writing(folder / f"{stem}-{figure.name}{ending}") as opened:
                opened.write(content)
    return notes
