"""Threads for the cores that are there; the user's own choice wins."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from raptor.runtime import threads
from raptor.runtime.threads import CHOSEN, available_cores, busy_cores, thread_settings

CORES = len(os.sched_getaffinity(0))


def group(root, **files):
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, CORES),
        ({"cpu.max": "max 100000\n"}, CORES),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "120000 100000\n"}, min(2, CORES)),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "nonsense"}, CORES),
        ({"cpu.max": "100000 0\n"}, CORES),
        ({"cpu__cpu.cfs_quota_us": "-1\n", "cpu__cpu.cfs_period_us": "100000\n"}, CORES),
        ({"cpu__cpu.cfs_quota_us": "100000\n", "cpu__cpu.cfs_period_us": "100000\n"}, 1),
    ],
)
def test_cores_are_those_of_the_affinity_and_of_the_control_group(tmp_path, files, cores):
    assert available_cores(group(tmp_path, **files)) == cores


def test_affinity_counts():
    one = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); "
    code = one + "from raptor.runtime.threads import available_cores; print(available_cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def stat(busy_ticks):
    """Return the kernel's file: ticks of each core spent by processes; iowait and idle do not count."""
    return "cpu 1 1 1 1\n" + "".join(f"cpu{n} {ticks} 0 0 1000 50 0 0 0 0 0\n" for n, ticks in enumerate(busy_ticks))


@pytest.mark.parametrize(
    ("shares", "cores", "busy"),
    [([0.0, 0.0], 2, 0), ([1.0, 0.0], 2, 1), ([1.0, 1.0], 2, 1), ([0.3, 0.1], 2, 0), ([0.6, 0.6], 4, 1)],
)
def test_cores_that_others_use_are_counted(tmp_path, monkeypatch, shares, cores, busy):
    file, hertz = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    file.write_text(stat([500, 700]))
    later = stat([500 + round(shares[0] * hertz), 700 + round(shares[1] * hertz)])
    monkeypatch.setattr(threads.time, "sleep", lambda seconds: file.write_text(later))
    assert busy_cores(cores, file, seconds=1.0) == busy


def test_a_machine_that_says_nothing_is_taken_as_quiet(tmp_path):
    assert busy_cores(2, tmp_path / "nothing") == 0
    (tmp_path / "stat").write_text("cpu0 a b c\n")
    assert busy_cores(2, tmp_path / "stat") == 0


@pytest.mark.parametrize("name", CHOSEN)
def test_what_the_user_has_set_wins(name):
    assert thread_settings({name: "1"}) == {}


def test_without_a_choice_of_the_user_s_threads_are_set(monkeypatch):
    monkeypatch.setattr(threads, "busy_cores", lambda cores: cores - 1)
    assert thread_settings({}) == {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "5000"}
    monkeypatch.setattr(threads, "busy_cores", lambda cores: 0)
    assert thread_settings({}) == {"OMP_NUM_THREADS": str(available_cores())}  # what torch itself would do


def test_the_command_chooses_before_torch_is_loaded():
    code = "import sys; sys.argv = ['raptor', 'doctor', '--json']; from raptor.__main__ import main; main()"
    environment = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    import json

    assert 1 <= json.loads(done.stdout)["threads"] <= CORES
