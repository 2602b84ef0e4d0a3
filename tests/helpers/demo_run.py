"""The whole pipeline in its smallest size, run once for all tests of it and of its page."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from functools import partial

import pytest
from filelock import FileLock

OPTIONS = ("--device", "cpu", "--batch-size", "8")


@contextmanager
def tiny():
    """Make the quick preset, and the expensive measures of dynamics, as small as can be."""
    # Shapes are checked in what is imported after pytest has begun, and this file is imported before.
    from raptor.dynamics import survey
    from raptor.dynamics.claims import rotation
    from raptor.dynamics.lyapunov import lyapunov_exponents
    from raptor.dynamics.perturbations.perturb import perturb
    from raptor.pipeline import presets

    def perturb_some(flow, *arguments, **options):
        layers = sorted({0, 1, flow.depth // 2, flow.depth - 1})
        return perturb(flow, *arguments, layers=layers, **{**options, "draws": 1})

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "quick", presets.Preset(16, 2, 8, 1, 1, 4, 1, 24, (0,), 1.0, 2, 4))
        patch.setattr(rotation, "DRAWS", 39)
        patch.setattr(survey, "coupling", lambda *_, **__: {})
        patch.setattr(survey, "perturb", perturb_some)
        patch.setattr(survey, "lyapunov_exponents", partial(lyapunov_exponents, vectors=2, iterations=1))
        yield


def shared_folder(tmp_path_factory, name):
    """Return a folder that all processes of the suite share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """Return the directory of the output of the golden commands, which run once for all processes."""
    return shared_folder(tmp_path_factory, "golden")


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory, golden):
    """Return the directory `run` of the whole pipeline: a copy of what the golden command of that name left."""
    from commands import done

    folder = shared_folder(tmp_path_factory, "demo") / "run"
    with FileLock(folder.parent / "lock"):
        if not (folder / "report.html").exists():
            shutil.copytree(done("run", golden).folder, folder, dirs_exist_ok=True)
    return folder
