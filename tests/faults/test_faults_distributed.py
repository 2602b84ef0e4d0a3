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
RESTARTS = 3 * KILLS_IN_A_RUN  # a process may also fail to reach another that is just being started


def launch(out: Path) -> subprocess.Popen:
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", RESTARTS)
    command = [sys.executable, *run, "-m", "raptor", *TRAIN, "--out", out]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAPTOR_SAVE_EVERY": "2"}
    return subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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
    """Run a training and kill one of its processes so many times, each time after some more steps; return how many."""
    child, done = launch(out), 0
    while child.poll() is None and done < kills:
        target = last_step(out) + chance.randint(1, 12)
        until = time.monotonic() + 120
        while child.poll() is None and last_step(out) < min(target, 57) and time.monotonic() < until:
            time.sleep(0.02)
        found = workers(child.pid) if child.poll() is None else []
        if len(found) == 2 and last_step(out) < 58:
            os.kill(chance.choice(found), signal.SIGKILL)
            done += 1
            while child.poll() is None and workers(child.pid) == found:
                time.sleep(0.05)
        elif last_step(out) >= 58:
            break
    assert child.wait(timeout=300) == 0
    return done


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_killed_at_random_a_distributed_training_goes_on_to_the_same_losses(tmp_path):
    whole = tmp_path / "whole"
    assert launch(whole).wait(timeout=300) == 0
    chance, total, attempt = random.Random(0), 0, 0
    while total < KILLS:
        attempt += 1
        out = tmp_path / str(attempt)
        total += killed(out, chance, min(KILLS_IN_A_RUN, KILLS - total))
        assert losses(out) == losses(whole)
        results = [json.loads((folder / "result.json").read_text()) for folder in (out, whole)]
        assert results[0]["top1"] == results[1]["top1"]
        assert attempt < 3 * KILLS
