"""How to get the results of a page again: stages, commands, versions and machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from raptor.render.tables import Number, Table
from raptor.reporting.collect import Json, SavedRun, Subject, command_of


def provenance(run: SavedRun) -> list[Table]:
    """Return the stage, and the command with what it ran on; tables of several runs are joined by their titles."""
    stage = (
        run.name,
        run.verb,
        Number(_number(run, "seed"), "", "seed"),
        Number(_number(run, "images"), ",", "images"),
        Number(_number(run, "seconds"), ",.1f", "seconds"),
    )
    command = command_of(run.config)
    machine = "; ".join(str(run.config[name]) for name in ("machine", "determinism") if run.config.get(name))
    return [
        Table("Stages", ("stage", "command", "seed", "images", "seconds"), (stage,)),
        Table("Commands", ("command", "versions", "machine"), ((command, _versions(run.config), machine),)),
    ]


def result_files(subject: Subject, beside: Path) -> dict[str, str]:
    """Return the address of the result file of each run, relative to the page; of runs with one name, the first.

    Parameters
    ----------
    subject
        A model of the page.
    beside
        Directory of the page.
    """
    found: dict[str, str] = {}
    for run in subject.runs:
        try:
            path = Path(os.path.relpath(run.folder.resolve(), beside.resolve())) / "result.json"
            found.setdefault(run.name, quote(path.as_posix(), errors="surrogateescape"))
        except (OSError, ValueError):  # on another drive, there is no relative path
            continue
    return found


def _number(run: SavedRun, key: str) -> float | None:
    value: Any = run.result.get(key)
    return value if isinstance(value, (int, float)) else None


def _versions(config: Json) -> str:
    versions = config.get("versions")
    known = versions.items() if isinstance(versions, dict) else ()
    return ", ".join(f"{name} {version}" for name, version in known if version)
