"""Whether a training may continue in a directory that holds one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raptor.errors import OutputError, ResumeError
from raptor.runtime.files import read_json
from raptor.training import checkpoint

# Options that may differ in a resumed run: where it runs, and what is measured after it.
FREE = {"device", "eval_images", "cache"}


def check_fresh(out: Path | None, resume: bool, config: dict[str, Any], stages: Sequence[str] = (".",)) -> None:
    """Raise where a directory holds a training that must not be overwritten, or cannot be continued.

    Parameters
    ----------
    out
        Run directory; None is always fine.
    resume
        Whether the training shall be continued, which needs the same options.
    config
        Options of this run.
    stages
        Directories of its checkpoints within `out`, the first stage first.
    """
    if out is None or not (out / stages[0] / checkpoint.NAME).exists():
        return
    if not resume:
        raise OutputError(f"{str(out)!r} holds a training already: continue it with --resume, or use another --out")
    check_same(out, config)
    for stage in stages:
        checkpoint.check(out / stage)


def check_same(out: Path, config: dict[str, Any]) -> None:
    """Raise where a directory holds a run with other options; the message names the first that differs."""
    try:
        before = read_json(out / "config.json")
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict):
        return  # nothing was started; and a checkpoint has its own configuration to compare
    before, now = _flat(before), _flat(config)
    for key in sorted(set(now) - FREE):
        if before.get(key) != now[key]:
            raise ResumeError(
                f"{str(out)!r} was started with {key} = {before.get(key)!r}, not {now[key]!r}; resume with the same "
                "options, or use another --out"
            )


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config with what it has under `recipe`, `launch` and so on as keys of its own."""
    inner = [value for value in config.values() if isinstance(value, dict)]
    return {key: value for options in (config, *inner) for key, value in options.items() if not isinstance(value, dict)}
