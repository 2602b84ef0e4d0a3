"""What people call a surrogate that was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raptor.runtime.rundir import Record

OWN = "Surrogate trained in this run"


def surrogate_name(record: Record[Any]) -> str:
    """Return what the surrogate is called; one that was trained in the same pipeline has no name of its own."""
    name = str(record.about.get("surrogate", ""))
    if not name:
        return "The surrogate"
    return (
        OWN
        if record.out is not None and _is_same(Path(name), record.out.resolve().parent / "distill")
        else f"Surrogate {name}"
    )


def _is_same(given: Path, own: Path) -> bool:
    """Whether a path that a pipeline was given is its own surrogate, wherever the pipeline ran.

    A relative path is one of another working directory if there is nothing at that place in this one.
    """
    if given.is_absolute() or given.exists():
        return given.resolve() == own
    return own.parts[-len(given.parts) :] == given.parts


def label(record: Record[Any]) -> str:
    """Return a short name for a legend, with the number of blocks."""
    name = surrogate_name(record)
    phases = record.result.phases
    blocks = "" if phases is None else f"k = {phases.k} ({phases}), "
    return blocks + ("trained in this run" if name == OWN else name.removeprefix("Surrogate ")) + training_of(record)


def training_of(record: Record[Any]) -> str:
    """Return how long the surrogate was trained, after its name; nothing where that is not known."""
    steps = record.about.get("steps")
    return f", {' + '.join(map(str, steps))} steps" if isinstance(steps, list) and steps else ""
