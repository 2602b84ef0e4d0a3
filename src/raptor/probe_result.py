"""The result of `probe`, as JSON has it."""

from __future__ import annotations

from typing import Any

from raptor.probes.probe import Column, Probed

REPORTED = "fine-tuned"  # the column whose metrics stand at the top


def describe_probe(probed: Probed) -> dict[str, Any]:
    """Return the metrics of the fine-tuned head with their intervals, and beside them all that was compared."""
    columns = {name: _column(column) for name, column in probed.columns.items()}
    return {
        **columns[REPORTED],
        "head": REPORTED,
        "heads": columns,
        "rate": probed.rate,
        "selection": {f"{rate:g}": value for rate, value in probed.selection.items()},
        "images_by_split": probed.images,
        "steps": probed.steps,
        "batch_size": probed.batch_size,
        "notes": list(probed.notes),
    }


def _column(column: Column) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for metric, value in column.value.items():
        body[metric] = value
        body[f"{metric}_ci"] = list(column.ci[metric])
        body[f"{metric}_by_seed"] = column.by_seed[metric]
    return body
