"""Keep what studies found as small files of the documentation: results, jobs and figures.

    python tools/keep_study.py runs/studies docs/results

Jobs are kept as they finish; a study's own result and figure once it is whole. Where the images lay is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from raptor.studies import STUDIES


def main(runs: Path, kept: Path) -> None:
    """Copy all that is finished."""
    for file in sorted(runs.glob("*/*.json")):
        # What students are is kept by the jobs that ask for them.
        if (file.parent / file.stem).is_dir() and file.parent.name != "students":
            found = json.loads(file.read_text())
            _write(kept / "jobs" / file.relative_to(runs), found, found["about"]["data"])
    for name in STUDIES:
        if (result := runs / name / "result.json").exists():
            config = json.loads((runs / name / "config.json").read_text())
            _write(kept / name / "result.json", json.loads(result.read_text()), config["data"])
            _write(kept / name / "config.json", config, config["data"])
            figure = runs / name / "figures" / f"{name}.svg"
            (kept / name / figure.name).write_text(figure.read_text())


def _write(file: Path, value: object, data: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=1).replace(data, Path(data).name) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
