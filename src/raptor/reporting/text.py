"""What `raptor report` shows."""

from __future__ import annotations

from collections.abc import Iterator

from raptor.render.tables import Part
from raptor.reporting.result import ReportResult
from raptor.runtime.rundir import Record


def show_report(record: Record[ReportResult]) -> Iterator[Part]:
    """Yield what is missing, and where the page is."""
    for note in record.result.missing:
        yield f"missing: {note}"
    yield f"report: {record.result.report}"
