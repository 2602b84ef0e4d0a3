"""What `raptor report` does: the page of run directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raptor.errors import OptionError, OutputError, one_line
from raptor.files import writing
from raptor.options import Common
from raptor.reporting.answer import answer
from raptor.reporting.collect import collect
from raptor.reporting.page import render
from raptor.run import Run

PAGE = "report.html"


def write_page(folders: Sequence[Path], page: Path) -> list[str]:
    """Write the page of run directories; return what is missing of them."""
    subjects = collect(folders)
    text = render(subjects)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with writing(page) as file:
            file.write(text.encode())
    except OSError as error:
        raise OutputError(f"cannot write {str(page)!r}: {one_line(error)}") from error
    return [note for subject in subjects for note in subject.missing]


def answers(folders: Sequence[Path]) -> list[str]:
    """Return what the page says first, as plain text."""
    return [sentence.striptags() for subject in collect(folders) for sentence in answer(subject)]


def report_runs(runs: Sequence[Path], common: Common) -> dict[str, Any]:
    """Build the page of any set of run directories; --out names the file, or a directory for it."""
    if not runs:
        raise OptionError("a report shows run directories: name some")
    out = common.out or Path(PAGE)
    page = out if out.suffix == ".html" else out / PAGE
    with Run("report", {"runs": [str(run) for run in runs]}, None, common.seed) as run:
        missing = write_page(runs, page)
        return run.finish({"report": str(page), "missing": missing}, images=0, layers=0)
