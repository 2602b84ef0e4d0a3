"""How much slower commands are beside a process that keeps one core busy, and what its precautions cost otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raptor.runtime.threads import CHOSEN, available_cores
from raptor.runtime.timing import Ratio, compare

COMMANDS = {
    "inspect": ("inspect", "scenes", "--images", "500", "--quiet"),
    "phases": ("phases", "scenes", "--images", "500", "--quiet"),
    "training steps": (
        "train",
        "--data",
        "scenes",
        "--steps",
        "40",
        "--batch-size",
        "32",
        "--eval-images",
        "12",
        "--quiet",
    ),
}
SLOWER = 2.2
QUIET_LOSS = 1.03


def _run(command: tuple[str, ...], **changes: str) -> None:
    """Run a command in a process of its own, with the threads that it chooses or with those given."""
    environment = {name: value for name, value in os.environ.items() if name not in CHOSEN} | changes
    subprocess.run([sys.executable, "-m", "raptor", *command], check=True, env=environment, stdout=subprocess.DEVNULL)


@contextmanager
def _busy_core() -> Iterator[None]:
    """Keep one core busy."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def _beside(command: tuple[str, ...]) -> None:
    with _busy_core():
        _run(command)


def busy_inspect() -> Ratio:
    """`raptor inspect` beside a busy process, against a quiet machine."""
    return _slowdown("inspect")


def busy_phases() -> Ratio:
    """`raptor phases` beside a busy process, against a quiet machine."""
    return _slowdown("phases")


def busy_training() -> Ratio:
    """Training steps beside a busy process, against a quiet machine."""
    return _slowdown("training steps")


def _slowdown(name: str) -> Ratio:
    command = COMMANDS[name]
    return compare(
        f"{name} beside a process that keeps one core busy, against a quiet machine",
        lambda: _beside(command), lambda: _run(command), limit=SLOWER, rounds=3,
    )  # fmt: skip


def quiet_loss() -> Ratio:
    """Training steps with the threads that the command chooses, against those of torch itself, on a quiet machine."""
    command = COMMANDS["training steps"]
    theirs: Callable[[], None] = lambda: _run(command, OMP_NUM_THREADS=str(available_cores()))  # noqa: E731
    return compare(
        "training steps with our choice of threads against torch's own, on a quiet machine",
        lambda: _run(command), theirs, limit=QUIET_LOSS, rounds=5,
    )  # fmt: skip
