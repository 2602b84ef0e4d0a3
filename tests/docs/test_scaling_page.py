"""The page on costs says what was measured."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
drawn = runpy.run_path(str(DOCS.parent / "tools" / "draw_scaling.py"))


def test_slopes_on_the_page_are_those_of_the_points():
    assert drawn["table"]() in (DOCS / "scaling.md").read_text()


def test_a_slope_is_an_exponent(monkeypatch):
    known = [{"task": "phases", "axis": "width", "width": w, "seconds": 3.0 * w**1.7} for w in (64, 128, 512)]
    monkeypatch.setitem(drawn["slope"].__globals__, "points", lambda: known)
    assert drawn["slope"]("phases", "width", "seconds") == pytest.approx(1.7)


@pytest.mark.parametrize("task", ["phases", "dynamics"])
def test_memory_of_an_analysis_is_flat_in_images(task):
    """Once there are more images than bins of the bootstrap."""
    own = [point for point in drawn["points"]() if (point["task"], point["axis"]) == (task, "images")]
    peaks = [point["peak_mb"] for point in sorted(own, key=lambda point: point["images"]) if point["images"] >= 512]
    assert len(peaks) >= 3
    assert np.ptp(peaks) < 0.15 * np.mean(peaks)
