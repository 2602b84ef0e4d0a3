"""What `raptor report` returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportResult:
    """A page that was written.

    Parameters
    ----------
    report
        The file.
    missing
        Notes on what could not be read or shown.
    """

    report: str
    missing: list[str]
