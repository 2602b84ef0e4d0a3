"""A disk that is full, again and again: one line each time, nothing half written, and the same result in the end.

The disk is a small tmpfs, which grows after each failure as if somebody had made room.
"""

from __future__ import annotations

import pytest

import small_commands
from intact import check_intact, outcome, unfinished
from warm import run

# Kilobytes of the disk, one try after the other; each verb meets the end of it in several of its files.
SIZES = {
    "train": (4, 300, 400, 580, 640, 4096),
    "distill": (4, 120, 180, 300, 400, 480, 560, 700, 4096),
    "phases": (4, 40, 300, 600, 840, 4096),
    "study": (4, 300, 700, 1200, 2400, 3200, 16384),
}


@pytest.mark.parametrize("verb", [pytest.param(v, marks=pytest.mark.long) for v in SIZES])
def test_each_time_one_line_and_in_the_end_the_same(verb, trained, disk, tmp_path, record_property):
    arguments = small_commands.every(trained, resume=True)[verb]
    assert run(*arguments, "--out", tmp_path / "roomy") == (0, "")
    out, failed = disk.path / "out", []
    for kilobytes in SIZES[verb]:
        disk.become(f"size={kilobytes}k")
        code, said = run(*arguments, "--out", out)
        check_intact(out)
        if code == 0:
            break
        assert code == 2, said
        assert said.startswith("error: ")
        assert said.count("\n") == 1, said
        assert "disk" in said
        assert "Free some space" in said
        failed.append(said)
    assert code == 0
    record_property("full", len(failed))
    record_property("at files", len(set(failed)))
    assert len(failed) >= 3
    assert len(set(failed)) >= 2  # it was full at more than one file
    assert outcome(out) == outcome(tmp_path / "roomy")
    assert unfinished(out) == []
