"""Processes of one command that die: those that decode images, and those that train together."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import small_commands
from intact import check_free, check_intact, outcome
from warm import ENVIRONMENT, LONGEST, Command, run

IMAGES = 160  # enough that workers decode them


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(IMAGES):
        path = folder / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(chance.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(path)
    return folder


def training(photos, steps):
    """A training on files, which two processes decode."""
    words = {"scenes": photos, 40: steps}
    return (*(words.get(word, word) for word in small_commands.TRAIN), "--image-size", 32, "--resume")


def children(pid):
    """Return the processes that a process has started, the last one last."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except FileNotFoundError:
            continue
    return sorted(found)


def begun(out):
    return (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").stat().st_size > 0


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells which processes decode images")
def test_a_worker_that_dies_ends_the_training_in_one_line_and_it_goes_on(photos, tmp_path):
    assert run(*training(photos, 200), "--out", tmp_path / "whole") == (0, "")
    command = Command(*training(photos, 200), "--out", tmp_path / "out")
    command.until(lambda: begun(tmp_path / "out"))
    os.kill(children(command.pid)[0], signal.SIGKILL)
    code, said = command.end()
    assert code == 2, said
    assert said.startswith("error: a worker process that decodes images died")
    assert said.count("\n") == 1, said
    assert "--resume" in said
    check_intact(tmp_path / "out")
    assert run(*training(photos, 200), "--out", tmp_path / "out") == (0, "")
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells which processes decode images")
def test_workers_that_outlive_a_killed_training_hold_nothing(photos, tmp_path):
    command = Command(*training(photos, 100_000), "--out", tmp_path)
    command.until(lambda: begun(tmp_path))
    assert len(children(command.pid)) >= 1
    command.process.kill()
    assert command.end()[0] == -signal.SIGKILL
    check_free(tmp_path)  # though those that decoded images may live for some seconds yet


def together(teacher, out):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = (*small_commands.distill(teacher), "--resume", "--out", out)
    environment = {**os.environ, **ENVIRONMENT, "CUDA_VISIBLE_DEVICES": ""}
    with out.with_suffix(".said").open("w") as said:
        return subprocess.Popen([*torchrun, "-m", "raptor", *map(str, arguments)], env=environment, stderr=said)


def rank_of(launcher, rank):
    """Return the process of a rank."""
    for pid in children(launcher.pid):
        if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return pid
    raise AssertionError(f"there is no process of rank {rank}")


def weights(out):
    return hashlib.sha256((out / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only /proc tells which process has which rank")
def test_of_two_that_train_together_either_may_die(tmp_path):
    assert run(*small_commands.TRAIN, "--out", tmp_path / "teacher") == (0, "")
    out, said = tmp_path / "out", tmp_path / "out.said"
    assert together(tmp_path / "teacher", tmp_path / "whole").wait(LONGEST) == 0
    for rank, kept in ((1, out / "stage1" / "checkpoint.pt"), (0, out / "stage2" / "checkpoint.pt")):
        launcher = together(tmp_path / "teacher", out)
        while not kept.exists():
            time.sleep(0.05)
            assert launcher.poll() is None, said.read_text()
        os.kill(rank_of(launcher, rank), signal.SIGKILL)
        assert launcher.wait(LONGEST) != 0
        # The one that is left says so in one line; torchrun then has much to say of its own, and may end it before.
        assert "error: another process of this run has ended" in said.read_text() or rank == 0
        assert "raptor/training/loop.py" not in said.read_text()
        check_intact(out)
        check_free(out)
    assert together(tmp_path / "teacher", out).wait(LONGEST) == 0, said.read_text()
    assert weights(out) == weights(tmp_path / "whole")
    assert outcome(out) == outcome(tmp_path / "whole")
