"""The comparison itself: it must see which side is slower."""

from __future__ import annotations

import json
import sys
import time

import pytest

from raptor import benchmarks
from raptor.__main__ import main
from raptor.runtime.timing import compare, compare_peaks


def test_a_side_that_sleeps_twice_as_long_has_ratio_two():
    measured = compare("sleep", lambda: time.sleep(0.2), lambda: time.sleep(0.1), limit=1.5, rounds=3)
    assert measured.ratio == pytest.approx(2, rel=0.3)
    assert not measured.ok
    assert "MISSED" in str(measured)


def hold(megabytes):
    """Return what touches so much memory while it runs."""
    return lambda: bytearray(megabytes * 2**20).count(1)


@pytest.mark.long
def test_a_side_that_holds_twice_as_much_has_ratio_two():
    measured = compare_peaks("hold", (hold, (200,)), (hold, (100,)), limit=1.5, rounds=1)
    assert measured.theirs == pytest.approx(100 * 2**20, rel=0.1)
    assert measured.ratio == pytest.approx(2, rel=0.1)
    assert not measured.ok
    assert "MB against" in str(measured)


@pytest.mark.parametrize(("slower", "code"), [(0.02, 1), (0.0, 0)])
def test_a_missed_limit_fails_the_command(monkeypatch, capfd, slower, code):
    def benchmark():
        return compare("sleep", lambda: time.sleep(slower), lambda: time.sleep(0.005), limit=1.5, rounds=3)

    monkeypatch.setattr(benchmarks, "BENCHMARKS", {"sleep": benchmark})
    monkeypatch.setattr(sys, "argv", ["raptor", "bench", "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == code
    result = json.loads(capfd.readouterr().out)
    assert (result["verb"], result["ok"], result["ratios"]["sleep"]["limit"]) == ("bench", code == 0, 1.5)
