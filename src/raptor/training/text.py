"""What `raptor train` shows."""

from __future__ import annotations

from collections.abc import Iterator

from raptor.render.tables import Part, format_number
from raptor.runtime.rundir import Record
from raptor.training.train import TrainResult


def show_train(record: Record[TrainResult]) -> Iterator[Part]:
    """Yield accuracy and speed, and where the model is."""
    yield _sentence(record.result, record.images)
    for damage in record.damaged or ():
        yield f"skipped: {damage.path} ({damage.reason})"
    if record.out is not None:
        yield f"model: {record.out}"


def notebook(result: TrainResult) -> list[Part]:
    """Return what a notebook shows."""
    return [_sentence(result, result.top1.n)]


def _sentence(result: TrainResult, images: int) -> str:
    top1, low, high = (format_number(share, ".2%") for share in (result.top1.value, *result.top1.ci))
    return (
        f"top-1 {top1} (95% interval {low} to {high}, n = {images:,}) after {result.epochs:.2f} epochs of "
        f"{result.train_images:,} images at {result.images_per_second:.0f}/s"
    )
