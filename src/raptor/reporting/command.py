"""`raptor report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from raptor.core.options import Option
from raptor.reporting.result import ReportResult
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import PAGE, verb

Runs = Annotated[
    list[Path], Option("Directories that other commands wrote with --out.", positional=True, metavar="RUN")
]


@verb(
    PAGE, "reporting.result:ReportResult", name="report",
    help={
        "out": "HTML file to write, or a directory for report.html. Default: report.html.",
        "seed": None, "device": None, "batch_size": None, "images": None, "image_size": None,
    },
)  # fmt: skip
def report_command(runs: Runs, *, run_options: RunOptions) -> Record[ReportResult]:
    """Write one report page from the results of earlier commands."""
    from raptor.reporting.collect import collect
    from raptor.reporting.ladder import ladder
    from raptor.reporting.write import PAGE as NAME
    from raptor.reporting.write import write_page

    out = run_options.out or Path(NAME)
    page = out if out.suffix == ".html" else out / NAME
    with Run("report", {"runs": [str(run) for run in runs]}, None, run_options.seed) as run:
        missing = write_page(runs, page)
        evidence = [rung for subject in collect(runs) for rung in ladder(subject)]
        return run.record(ReportResult(str(page), missing, evidence), images=0, layers=0)
