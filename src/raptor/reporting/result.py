"""What `raptor report` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from raptor.render.registry import Rung


@dataclass(frozen=True)
class ReportResult:
    """A page that was written.

    Parameters
    ----------
    report
        The file.
    missing
        Notes on what could not be read or shown.
    evidence
        The ladder of evidence on the block-recurrent hypothesis, for each model.
    """

    report: str
    missing: list[str]
    evidence: list[Rung] = field(default_factory=list)
