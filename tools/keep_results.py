"""Copy results, jobs and figures of runs into the documentation.

    python tools/keep_results.py runs/studies docs/results     # all studies in a directory, with the finished jobs
    python tools/keep_results.py runs/teacher docs/results     # one run

Studies are summarised and drawn again from the jobs that have a result, so that a run that was interrupted, or still
runs, can be kept too. Absolute paths in a result are shortened to their last component.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from raptor.core.serialize import to_json, to_plain
from raptor.render.charts import pictures, spec_of
from raptor.runtime.rundir import SCHEMA, Record
from raptor.studies.options import STUDY_NAMES
from raptor.studies.registry import find_study
from raptor.studies.study import summarise_stored


def main(runs: Path, kept: Path) -> None:
    """Copy all finished results."""
    if (runs / "result.json").exists():
        _keep_run(runs, kept / runs.name)
        return
    shutil.rmtree(kept / "jobs", ignore_errors=True)
    for file in sorted(runs.glob("*/*.json")):
        # The jobs that use a student already contain its description.
        if (file.parent / file.stem).is_dir() and file.parent.name != "students":
            _write(kept / "jobs" / file.relative_to(runs), json.loads(file.read_text()))
    for name in STUDY_NAMES:
        if (runs / name / "config.json").exists():
            _keep_study(runs, name, kept / name)


def _keep_run(run: Path, kept: Path) -> None:
    for name in ("result.json", "config.json"):
        _write(kept / name, json.loads((run / name).read_text()))
    for figure in (run / "figures").glob("*.svg"):
        shutil.copy(figure, kept / figure.name)


def _keep_study(runs: Path, name: str, kept: Path) -> None:
    """Write what the stored jobs of a study say now."""
    shutil.rmtree(kept, ignore_errors=True)
    result, config = summarise_stored(runs, name), json.loads((runs / name / "config.json").read_text())
    scale, seconds = result.size.scale, sum(job.seconds or 0.0 for job in result.jobs)
    version = config["versions"]["raptor-vit"]
    record = Record(SCHEMA, "study", version, config["seed"], scale.eval_images, scale.depth, seconds, result)
    _write(kept / "result.json", to_plain(record))
    _write(kept / "config.json", config)
    if result.summary:
        drawn = pictures(to_json(spec_of(find_study(name).draw(result.summary).chart)))
        (kept / f"{name}.svg").write_bytes(drawn[".svg"])


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
