"""Processes of a distributed run find each other, also after a restart, or say who is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
import torch.distributed

from raptor.errors import JoinError
from raptor.runtime import distributed

# Rank 1 is late, so that rank 0 sees what the killed processes left in the store before rank 1 has replaced it.
RESTARTED = """
import os, signal, sys, time
from raptor.runtime.distributed import process_group
group, restarts = process_group(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
time.sleep(0.5 * group.rank)
assert group.all_gather_objects(group.rank) == [0, 1]
print(f"start {restarts}: rank {group.rank} joined", flush=True)
if restarts < 3 and group.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
elif restarts < 3:
    time.sleep(60)  # until torchrun ends this process
"""
TRAIN = (
    "train", "--data", "scenes", "--steps", "2", "--batch-size", "4", "--depth", "2", "--width", "16", "--heads", "2",
    "--device", "cpu",
)  # fmt: skip
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def agent_store():
    """Return the store of a torchrun, as the agent keeps it for all restarts, and a function that makes a client."""
    server = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return lambda: torch.distributed.TCPStore("127.0.0.1", server.port, is_master=False), server.port


@pytest.mark.long
def test_each_restart_joins_at_the_first_attempt(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(RESTARTED)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3")
    environment = {**ENVIRONMENT, "RAPTOR_JOIN_TIMEOUT": "30"}
    command = [sys.executable, *launcher, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("rank 1 joined") == 4, done.stdout  # rank 0 may be ended before it prints


@pytest.mark.parametrize("left", ["asks", "asks and answer"])
def test_processes_agree_whatever_killed_ones_left(agent_store, left):
    client, _ = agent_store
    for rank in (1, 2):
        client().set(f"raptor/asks/{rank}", f"killed{rank}")
        if left == "asks and answer":
            client().set(f"raptor/answer/killed{rank}", "old")
            client().set(f"raptor/joined/old/{rank}", "")
    names: dict[int, str] = {}

    def join(rank):
        time.sleep(0.1 * rank)
        names[rank] = distributed._name_of_start(client(), rank, 3)

    threads = [threading.Thread(target=join, args=(rank,), daemon=True) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(names) == 3
    assert len({*names.values()}) == 1
    assert names[0] != "old"


@pytest.mark.parametrize(("rank", "missing"), [(0, "rank 1, 2 of 3 processes"), (1, "another process")])
def test_a_process_that_waits_for_others_in_vain_fails_in_time(agent_store, monkeypatch, rank, missing):
    place = {"RANK": rank, "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agent_store[1]}
    for name, value in {**place, "TORCHELASTIC_USE_AGENT_STORE": True}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(distributed, "JOIN_TIMEOUT", 0.5)
    start = time.monotonic()
    with pytest.raises(JoinError, match=missing):
        distributed.join_processes()
    assert time.monotonic() - start < 10


def test_a_training_whose_other_process_never_joins_ends_with_one_line(agent_store, tmp_path):
    place = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agent_store[1]}
    place |= {"TORCHELASTIC_USE_AGENT_STORE": True, "RAPTOR_JOIN_TIMEOUT": 1}
    environment = {**ENVIRONMENT, **{name: str(value) for name, value in place.items()}}
    command = [sys.executable, "-m", "raptor", *TRAIN, "--out", str(tmp_path), "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: rank 1 of 2 processes did not join"), done.stderr


def test_a_process_that_was_started_alone_waits_for_nobody(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert distributed.join_processes() == {}
