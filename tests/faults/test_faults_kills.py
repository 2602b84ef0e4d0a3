"""Commands that are killed at random moments and go on: in the end nothing tells them from one that was not."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import small_commands
from intact import check_free, check_intact, outcome, unfinished
from warm import Command

IN_A_ROW = 3  # times that a command is killed in one directory
ENDS = {signal.SIGKILL: {-signal.SIGKILL}, signal.SIGTERM: {-signal.SIGTERM, 128 + signal.SIGTERM}}


@dataclass
class Undisturbed:
    """A command that nobody killed: how it is given, what came of it and how long it took."""

    start: Callable[[Path], Command]
    outcome: dict[str, Any]
    seconds: float


@dataclass
class Tally:
    """How many were killed, how many files each left, and how many directories of killed ones ended equal."""

    killed: int = 0
    left: list[int] = field(default_factory=list)
    equal: int = 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, trained) -> Callable[[str], Undisturbed]:
    """Each verb, run once to its end without a fault."""
    base, made = tmp_path_factory.mktemp("undisturbed"), {}
    given = small_commands.every(trained, resume=True)

    def one(verb: str) -> Undisturbed:
        if verb not in made:

            def start(out: Path) -> Command:
                return Command(*given[verb], "--out", out, smallest=verb == "run")

            began = time.monotonic()
            code, said = start(base / verb).end()
            assert (code, said) == (0, "")
            made[verb] = Undisturbed(start, outcome(base / verb), time.monotonic() - began)
        return made[verb]

    return one


Wait = Callable[[Command, Path], bool]  # waits for the moment of a kill; returns whether the command still runs


def random_moments(reference: Undisturbed, seed: str) -> Wait:
    """Wait for a random part of the time that the command takes when nobody kills it."""
    chance = random.Random(seed)
    return lambda command, folder: command.runs(chance.uniform(0, reference.seconds))


def next_checkpoint(command: Command, folder: Path) -> bool:
    """Wait until the command has written one more checkpoint, on a machine of any speed."""

    def written() -> list[tuple[str, int]]:
        return [(path.name, path.stat().st_mtime_ns) for path in folder.rglob("*.pt")]

    before = written()
    command.until(lambda: written() != before)
    return True


def disturb(reference: Undisturbed, base: Path, number: int, kills: int, wait: Wait) -> Tally:
    """Kill a command at certain moments, often enough; after a few times in one directory it may end there."""
    tally, folder, here = Tally(), base / "0", 0
    for attempt in count(1):
        last = tally.killed == kills
        command = reference.start(folder)
        spared = last or here == IN_A_ROW
        if not spared and wait(command, folder):
            command.process.kill() if number == signal.SIGKILL else command.process.terminate()
        code, said = command.end()
        assert "Traceback" not in said
        assert "error" not in said  # the directory that a killed one held was free
        if code == 0:
            assert outcome(folder) == reference.outcome
            # A job's own small file may be left where studies share a folder that no one of them holds.
            assert [path for path in unfinished(folder) if path.parent.name not in ("students", "teachers")] == []
            tally.equal += here > 0
            if last:
                break
            folder, here = base / str(attempt), 0
            continue
        assert not spared
        assert code in ENDS[signal.Signals(number)]
        tally.killed, here = tally.killed + 1, here + 1
        if folder.exists():
            tally.left.append(check_intact(folder))
            check_free(folder)
    return tally


def check(tally: Tally, kills: int) -> None:
    assert tally.killed == kills
    assert tally.equal >= 1
    assert max(tally.left) > 1  # some fell when there was something to lose


@pytest.mark.long
def test_killed_twice_a_training_ends_as_if_nothing_had_happened(undisturbed, tmp_path):
    check(disturb(undisturbed("train"), tmp_path, signal.SIGKILL, 2, next_checkpoint), 2)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize(("verb", "kills"), [("train", 12), ("distill", 8), ("study", 6), ("run", 3)])
def test_killed_often_it_ends_as_if_nothing_had_happened(undisturbed, tmp_path, record_property, verb, kills, number):
    reference, began = undisturbed(verb), time.monotonic()
    tally = disturb(reference, tmp_path, number, kills, random_moments(reference, f"{number} {kills}"))
    check(tally, kills)
    for name, value in (
        ("killed", tally.killed), ("directories", tally.equal), ("files left", tally.left),
        ("seconds", round(time.monotonic() - began, 1)), ("undisturbed", round(reference.seconds, 1)),
    ):  # fmt: skip
        record_property(name, value)
