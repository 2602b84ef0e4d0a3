"""Processes of a distributed training that are killed: torchrun starts them again, and the losses are the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAIN = (
    "train", "--data", "scenes", "--steps", 60, "--batch-size", 4, "--depth", 4, "--width", 16, "--heads", 2,
    "--registers", 1, "--warmup", 5, "--eval-images", 16, "--device", "cpu", "--quiet",
)  # fmt: skip
KILLS = 20
KILLS_IN_A_RUN = 4
LONGEST = 300  # seconds that a run may take, with its restarts, before it is said to hang


def launch(out: Path, restarts: int = 0) -> subprocess.Popen:
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", restarts)
    command = [sys.executable, *run, "-m", "raptor", *TRAIN, "--out", out]
    # A restarted process that does not find the other one ends before the run is said to hang.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAPTOR_SAVE_EVERY": "2", "RAPTOR_JOIN_TIMEOUT": "60"}
    with out.with_suffix(".said").open("w") as said:
        return subprocess.Popen([*map(str, command)], env=environment, stdout=said, stderr=said)


def end(child: subprocess.Popen, out: Path, until: float) -> None:
    """Wait for a run to succeed; end it if it hangs, and fail with what it printed."""
    try:
        code = child.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        child.terminate()  # torchrun then ends its processes, and kills those that have not ended after 30 seconds
        child.wait(90)
        code = f"none: it hung for {LONGEST} seconds"
    assert code == 0, f"exit code {code}, step {last_step(out)}\n{out.with_suffix('.said').read_text()[-5000:]}"


def workers(parent: int) -> list[int]:
    """Return the processes that torchrun started."""
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]


def losses(out: Path) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"]) for line in lines]


def last_step(out: Path) -> int:
    """Return the last step that the log has; 0 where there is none."""
    try:
        return losses(out)[-1][0]
    except (OSError, ValueError, IndexError):
        return 0


def killed(out: Path, chance: random.Random, kills: int) -> int:
    """Run a training and kill one of its processes up to so many times; return how many.

    A kill comes after some more steps, or while the processes start. torchrun may restart only once for each kill.
    """
    until = time.monotonic() + LONGEST
    child, done = launch(out, restarts=kills), 0
    while child.poll() is None and done < kills and last_step(out) < 58 and time.monotonic() < until:
        found = workers(child.pid)
        if len(found) != 2:
            time.sleep(0.02)
            continue
        target, at_start = min(last_step(out) + chance.randint(1, 12), 57), chance.random() < 0.25
        moment = time.monotonic() + chance.uniform(0, 8) if at_start else until
        while child.poll() is None and last_step(out) < target and time.monotonic() < moment:
            time.sleep(0.02)
        if child.poll() is None and workers(child.pid) == found and last_step(out) < 58:
            os.kill(chance.choice(found), signal.SIGKILL)
            done += 1
            while child.poll() is None and workers(child.pid) == found and time.monotonic() < until:
                time.sleep(0.05)
    end(child, out, until)
    return done


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_killed_at_random_a_distributed_training_goes_on_to_the_same_losses(tmp_path):
    whole = tmp_path / "whole"
    end(launch(whole), whole, time.monotonic() + LONGEST)
    chance, total, attempt = random.Random(0), 0, 0
    while total < KILLS:
        attempt += 1
        out = tmp_path / str(attempt)
        total += killed(out, chance, min(KILLS_IN_A_RUN, KILLS - total))
        assert losses(out) == losses(whole)
        results = [json.loads((folder / "result.json").read_text()) for folder in (out, whole)]
        assert results[0]["top1"] == results[1]["top1"]
        assert attempt < 3 * KILLS
