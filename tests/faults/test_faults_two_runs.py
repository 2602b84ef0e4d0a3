"""Two runs with the same --out: the second fails with a one-line error, and the first is not affected."""

from __future__ import annotations

import os
import signal

import pytest

import small_commands
from intact import check_intact, outcome
from warm import Command, run


@pytest.mark.long
@pytest.mark.parametrize(
    "verb", ["train", *(pytest.param(verb, marks=pytest.mark.long) for verb in ("distill", "phases", "study", "run"))]
)
def test_the_second_is_refused_and_the_first_ends_unharmed(trained, tmp_path, verb):
    command, going_on = (small_commands.every(trained, resume)[verb] for resume in (False, True))
    smallest = verb == "run"
    assert run(*command, "--out", tmp_path / "alone", smallest=smallest) == (0, "")
    out = tmp_path / "out"
    held = out / "partitions" if verb == "study" else out  # studies of one directory share what it holds
    first = Command(*command, "--out", out, smallest=smallest)
    first.until((held / "config.json").exists)
    os.kill(first.pid, signal.SIGSTOP)  # it holds the directory for as long as this takes
    try:
        check_intact(out)
        for arguments in {command, going_on}:
            code, said = run(*arguments, "--out", out, smallest=smallest)
            assert code == 2, said
            assert said == f"error: another run is writing to {str(held)!r}; wait for it, or use another --out\n"
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert first.end() == (0, "")
    assert outcome(out) == outcome(tmp_path / "alone")
