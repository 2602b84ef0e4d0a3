"""Freed memory is kept: counted in page faults, which is what it saves."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource
import torch
from raptor.runtime.malloc import keep_freed_memory
assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work(mebibytes):
    for _ in range(5):
        blocks = [torch.zeros(mebibytes * 2**18) for _ in range(64)]  # all freed before the next round
        del blocks
for mebibytes in (1, 4, 8, 12):
    work(mebibytes)
before = faults()
work(12)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the setting is glibc's")
@pytest.mark.long
def test_memory_that_is_freed_and_asked_for_again_costs_no_page_faults():
    # Without the setting it depends on where the heap happens to lie: some 890,000 faults in most processes.
    for _ in range(4):
        run = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
        assert int(run.stdout) < 200


def test_only_the_command_line_changes_the_allocator(monkeypatch, call):
    import torch

    from raptor.runtime import malloc
    from raptor.training.config import TrainConfig
    from raptor.training.loop import fit

    asked = []
    monkeypatch.setattr(malloc, "keep_freed_memory", lambda: asked.append(True))
    model = torch.nn.Linear(2, 1)
    fit(model, lambda batch, step: (model(batch).sum(), {}), lambda *_: iter([torch.ones(1, 2)]), TrainConfig(1, 1))
    assert asked == []
    assert call("--version")[0] == 0
    assert asked == [True]
