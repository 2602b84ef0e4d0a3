"""Directories that cannot be written to: a disk that is read-only, a file where a directory should be.

Root may write whatever permissions say, so a read-only disk is a tmpfs that is mounted read-only.
"""

from __future__ import annotations

import pytest

import small_commands
from intact import outcome
from warm import run


def refused(arguments, out, why):
    code, said = run(*arguments, "--out", out)
    assert code == 2
    assert said.startswith("error: cannot write to ")
    assert said.count("\n") == 1, said
    assert str(out) in said
    assert why in said


@pytest.mark.long
def test_a_file_in_place_of_a_directory_is_one_line(trained, tmp_path):
    (tmp_path / "file").write_text("somebody's")
    for arguments in small_commands.every(trained).values():
        refused(arguments, tmp_path / "file", "")
        refused(arguments, tmp_path / "file" / "below", "")
    assert (tmp_path / "file").read_text() == "somebody's"


@pytest.mark.long
def test_a_read_only_disk_is_one_line_and_once_writable_a_run_goes_on(trained, disk, tmp_path):
    disk.become("size=4096k")
    short = tuple(20 if word == 40 else word for word in small_commands.TRAIN)
    for arguments in small_commands.every(trained).values():
        disk.become("ro")
        refused(arguments, disk.path / "new", "read-only")
    disk.become("rw")
    assert list(disk.path.iterdir()) == []
    assert run(*short, "--out", disk.path / "out") == (0, "")
    kept = outcome(disk.path / "out")
    disk.become("ro")
    refused((*short, "--resume"), disk.path / "out", "read-only")
    assert outcome(disk.path / "out") == kept
    disk.become("rw")
    assert run(*short, "--resume", "--out", disk.path / "out") == (0, "")
    assert outcome(disk.path / "out") == kept
