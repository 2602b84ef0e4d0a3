"""Freed memory is kept: counted in page faults, which is what it saves."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from raptor.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    for _ in range(5):
        blocks = [torch.zeros(2**21) for _ in range(64)]  # 8 MiB each, all freed before the next round
        del blocks
work()
before = faults()
work()
print(faults() - before)
"""


def count(how: str) -> int:
    run = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(run.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the setting is glibc's")
def test_memory_that_is_freed_and_asked_for_again_costs_no_page_faults():
    kept, returned = count("keep"), count("leave")
    assert kept < 200 < returned / 10
