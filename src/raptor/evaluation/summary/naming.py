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
    # By the last components alone: the pipeline may have run in another working directory.
    own = record.out is not None and Path(name).parts[-2:] == (record.out.resolve().parent.name, "distill")
    return OWN if own else f"Surrogate {name}"


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
