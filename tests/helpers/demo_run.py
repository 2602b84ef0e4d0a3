"""The demo in its smallest size, run once for all tests of the pipeline and of its page."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial

import pytest
from filelock import FileLock

OPTIONS = ("--device", "cpu", "--batch-size", "8")


@contextmanager
def tiny():
    """Make the quick preset as small as can be."""
    # Shapes are checked in what is imported after pytest has begun, and this file is imported before.
    from raptor.dynamics import survey
    from raptor.dynamics.lyapunov import lyapunov_exponents
    from raptor.pipeline import presets

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "quick", presets.Preset(24, 2, 8, 1, 1, 8, 1, 40, (0,), 1.0, 2))
        patch.setattr(survey, "lyapunov_exponents", partial(lyapunov_exponents, vectors=2, iterations=1))
        yield


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """Run the demo, once for all processes of the suite; return its directory."""
    from raptor.__main__ import main

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo" / "out"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.parent / "lock"):
        if not (folder / "report.html").exists():
            with tiny(), pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", ["raptor", "demo", "--out", str(folder), *OPTIONS, "--quiet"])
                with pytest.raises(SystemExit) as stop:
                    main()
            assert not stop.value.code
    return folder
