"""Memory that is full, and a reader of the output that has gone: told in one line, or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from raptor.runtime.faults import explain_failure


@pytest.mark.parametrize("error", [MemoryError("64 GiB"), torch.OutOfMemoryError("CUDA out of memory")], ids=repr)
def test_full_memory_says_what_to_do(call, monkeypatch, error):
    assert "--batch-size" in explain_failure(error)

    def full(*arguments, **options):
        raise error

    monkeypatch.setattr("raptor.cli.doctor.examine", full)
    code, out, err = call("doctor")
    assert (code, out) == (2, "")
    assert err.startswith("error: out of memory; use a smaller --batch-size")
    assert err.count("\n") == 1


@pytest.mark.long
def test_a_reader_who_has_enough_is_no_error():
    """As of `raptor ... | head -c 1`: it closes the pipe while there is more to say."""
    command = [sys.executable, "-m", "raptor", "phases", "scenes", "--images", "8", "--device", "cpu", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        child.stdout.close()
        err = child.stderr.read()
        assert child.wait(timeout=120) == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
