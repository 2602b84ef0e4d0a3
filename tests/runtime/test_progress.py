"""The bar appears after two seconds and not before, on the console that it was given."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from raptor.runtime import progress


@pytest.mark.parametrize(("seconds", "appears"), [(0.1, False), (3.0, True)])
def test_a_bar_appears_only_for_long_work(monkeypatch, seconds, appears):
    clock = iter(seconds * index for index in range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100)
    batches = [[0] * 30, [0] * 30, [0] * 40]
    assert list(progress.track(batches, 100, "norms", console)) == batches
    assert ("norms" in written.getvalue()) is appears
    assert ("100/100" in written.getvalue()) is appears
