"""Commands in processes of their own that start at once: forked from one that has imported everything.

Killing fifty commands that each import torch would take minutes of importing alone.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

CONTEXT = multiprocessing.get_context("forkserver")
IMPORTED = [
    "pytest", "raptor.cli", "raptor.pipeline.command", "raptor.studies.study", "raptor.training.command",
    "raptor.dynamics.figures", "raptor.evaluation.figures", "raptor.phases.figures",
    "raptor.studies.figures", "raptor.distillation.figures", "vl_convert",
]  # fmt: skip
# A kill can fall between any two states; one thread is enough.
ENVIRONMENT = {"RAPTOR_SAVE_EVERY": "2", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
LONGEST = 300  # seconds that a command may take before it is said to hang


def _run(arguments: list[str], said: str, smallest: bool) -> None:
    """Be the command, in the process that was forked."""
    handle = os.open(said, os.O_WRONLY)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    multiprocessing.set_start_method("fork", force=True)  # as in a process that was not forked from a server
    sys.argv = ["raptor", *arguments]
    from demo_run import tiny
    from raptor.__main__ import main

    with tiny() if smallest else nullcontext():
        main()


class Command:
    """A command of raptor that has been started; with `smallest`, the quick preset is as small as can be."""

    def __init__(self, *arguments: object, smallest: bool = False):
        with mock.patch.dict(os.environ, ENVIRONMENT):
            forkserver.set_forkserver_preload(IMPORTED)
            forkserver.ensure_running()
        handle, name = tempfile.mkstemp(prefix="said-")
        os.close(handle)
        self.file = Path(name)
        self.process = CONTEXT.Process(target=_run, args=([*map(str, arguments)], name, smallest))
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def said(self) -> str:
        """What it has printed so far, on either stream."""
        return self.file.read_text()

    def runs(self, seconds: float = 0.0) -> bool:
        """Wait for some time; tell whether it still runs."""
        self.process.join(seconds)
        return self.process.exitcode is None

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something has happened; it must not end before."""
        while not condition():
            assert self.runs(0.02), f"it ended too early; it said: {self.said}"

    def end(self) -> tuple[int, str]:
        """Wait until it ends; return its exit code, minus the signal where it was killed, and what it printed."""
        if self.runs(LONGEST):
            self.process.kill()
            self.process.join()
            raise AssertionError(f"it hung; it said: {self.said}")
        said = self.said
        self.file.unlink()
        return self.process.exitcode or 0, said


def run(*arguments: object, smallest: bool = False) -> tuple[int, str]:
    """Run a command to its end; return its exit code and what it printed."""
    return Command(*arguments, smallest=smallest).end()
