"""When a training may go on in a directory that holds one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raptor.errors import OutputError, ResumeError
from raptor.files import read_json
from raptor.training import checkpoint

# Options that a run may go on with in another form: they say where it runs and what is reported after it.
FREE = {"device", "eval_images", "cache"}


def check_fresh(out: Path | None, resume: bool, config: dict[str, Any], stages: Sequence[str] = (".",)) -> None:
    """Refuse to train over a run that is there, unless it is to go on and can, with the options of its start.

    `stages` are the directories of its checkpoints, the first one first.
    """
    if out is None or not (out / stages[0] / checkpoint.NAME).exists():
        return
    if not resume:
        raise OutputError(f"{str(out)!r} holds a training already: go on with --resume, or use another --out")
    check_same(out, config)
    for stage in stages:
        checkpoint.check(out / stage)


def check_same(out: Path, config: dict[str, Any]) -> None:
    """Raise where a directory holds a run that was started with other options; name the first that differs."""
    try:
        before = read_json(out / "config.json")
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict):
        return  # nothing was begun; and a checkpoint itself knows what it was started with
    before, now = _flat(before), _flat(config)
    for key in sorted(set(now) - FREE):
        if before.get(key) != now[key]:
            raise ResumeError(
                f"{str(out)!r} was started with {key} = {before.get(key)!r}, not {now[key]!r}; resume with the same "
                "options, or use another --out"
            )


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Return options of options as options: what stands in `recipe` and `launch`."""
    inner = [value for value in config.values() if isinstance(value, dict)]
    return {key: value for options in (config, *inner) for key, value in options.items() if not isinstance(value, dict)}
