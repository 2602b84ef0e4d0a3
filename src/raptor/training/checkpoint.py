"""Checkpoints: all that an interrupted training needs to continue bit-identically."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from raptor.errors import ResumeError, one_line
from raptor.runtime.files import writing

NAME = "checkpoint.pt"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after `step` steps.

    It has no random generator: everything that a step draws is seeded by (seed, step).

    Parameters
    ----------
    step, seconds
        Number of steps, and seconds of training until then.
    config
        Configuration of the training, which a resumed one must share.
    model, optimizers
        State dicts.
    """

    step: int
    seconds: float
    config: dict[str, Any]
    model: dict[str, Any]
    optimizers: list[dict[str, Any]]

    def __post_init__(self) -> None:
        wanted = {"step": int, "seconds": float, "config": dict, "model": dict, "optimizers": list}
        for name, kind in wanted.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"its {name} is not a {kind.__name__}")


def save(checkpoint: Checkpoint, out: Path) -> None:
    """Write a checkpoint atomically, in place of the previous one."""
    with writing(out / NAME) as file:
        torch.save(vars(checkpoint), file)


def check(out: Path) -> None:
    """Raise where there is a checkpoint that cannot be read; tensors are not loaded."""
    _read(out / NAME, mmap=True)


def load(out: Path, config: dict[str, Any]) -> Checkpoint | None:
    """Read the checkpoint of a run with this configuration; None where there is none."""
    found = _read(out / NAME)
    if found is None:
        return None
    for key in sorted({*config, *found.config}):
        if config.get(key) != found.config.get(key):
            raise ResumeError(
                f"{str(out)!r} was started with {key} = {found.config.get(key)!r}, not {config.get(key)!r}; "
                "resume with the same options, or use another --out"
            )
    return found


def _read(path: Path, **how: Any) -> Checkpoint | None:
    if not path.exists():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols: what cannot be read is an error below
            return Checkpoint(**torch.load(path, map_location="cpu", weights_only=True, **how))
    except Exception as error:
        raise ResumeError(
            f"the checkpoint {str(path)!r} is damaged ({one_line(error)}); restore a copy of it, or remove it to "
            "start again"
        ) from error
