"""What `raptor run` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from raptor.render.notebook import HtmlRepr
from raptor.render.registry import Rung


@dataclass(frozen=True)
class StageResult:
    """What became of a stage.

    Parameters
    ----------
    stage
        Its name, which is also that of its directory.
    skipped
        Whether it had a result already.
    not_done
        Why there was nothing to do; None where there was.
    error
        Why it failed; None where it did not.
    seconds
        Seconds that it took now.
    """

    stage: str
    skipped: bool
    not_done: str | None
    error: str | None
    seconds: float


@dataclass(frozen=True)
class PipelineResult(HtmlRepr):
    """The whole pipeline.

    Parameters
    ----------
    model, data, preset
        What was given.
    stages
        One entry per stage, in order.
    report
        The file of the page.
    answer
        The summary at the top of the page, as sentences.
    evidence
        The ladder of evidence on the block-recurrent hypothesis.
    """

    model: str
    data: str
    preset: str
    stages: list[StageResult]
    report: str
    answer: list[str]
    evidence: list[Rung] = field(default_factory=list)
