"""Copy results, jobs and figures of runs into the documentation.

    python tools/keep_results.py runs/studies docs/results     # all studies in a directory, with the finished jobs
    python tools/keep_results.py runs/teacher docs/results     # one run

Absolute paths in a result are shortened to their last component.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from raptor.studies.options import STUDY_NAMES


def main(runs: Path, kept: Path) -> None:
    """Copy all finished results."""
    if (runs / "result.json").exists():
        _keep(runs, kept / runs.name)
        return
    for file in sorted(runs.glob("*/*.json")):
        # The jobs that use a student already contain its description.
        if (file.parent / file.stem).is_dir() and file.parent.name != "students":
            _write(kept / "jobs" / file.relative_to(runs), json.loads(file.read_text()))
    for name in STUDY_NAMES:
        if (runs / name / "result.json").exists():
            _keep(runs / name, kept / name)


def _keep(run: Path, kept: Path) -> None:
    for name in ("result.json", "config.json"):
        _write(kept / name, json.loads((run / name).read_text()))
    for figure in (run / "figures").glob("*.svg"):
        shutil.copy(figure, kept / figure.name)


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_without_places(value), indent=1) + "\n")


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    if isinstance(value, str) and value.startswith("/"):
        return Path(value).name
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
