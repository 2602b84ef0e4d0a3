"""What `raptor run` and `raptor demo` show."""

from __future__ import annotations

from collections.abc import Iterator

from raptor.pipeline.result import PipelineResult, StageResult
from raptor.render.tables import Part, Table
from raptor.runtime.rundir import Record


def show_run(record: Record[PipelineResult]) -> Iterator[Part]:
    """Yield the stages, the summary and where the page is."""
    yield from notebook(record.result)


show_demo = show_run


def notebook(result: PipelineResult) -> Iterator[Part]:
    """Yield what a notebook shows."""
    rows = tuple((stage.stage, f"{stage.seconds:.1f}", _outcome(stage)) for stage in result.stages)
    yield Table(f"{result.model} on {result.data}, {result.preset}", ("stage", "seconds", ""), rows)
    yield from result.answer
    yield f"report: {result.report}"


def _outcome(stage: StageResult) -> str:
    if stage.skipped:
        return "had a result already"
    return stage.not_done or stage.error or "done"
