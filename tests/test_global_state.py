"""Library calls leave the process as they found it: generators, defaults, threads, loggers, environment, modules."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import raptor
from raptor.core.toy import Rotation
from raptor.runtime.optional_imports import import_transformers, silence

# Set when torch and the dependencies of datasets are first imported, and by pytest.
SET_BY_IMPORTS = ("KMP_DUPLICATE_LIB_OK", "TORCHINDUCTOR_CACHE_DIR", "PYTEST_CURRENT_TEST")
TOY = Rotation([0.3] * 6)
PIXELS = torch.linspace(-1, 1, 6 * 3 * 16 * 16).reshape(6, 3, 16, 16)


def state():
    """Return everything that a library call must not change."""
    import datasets
    import transformers

    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in list(logging.root.manager.loggerDict))]
    return {
        "torch generator": torch.get_rng_state().tolist(),
        "random": random.getstate(),
        "numpy generator": str(np.random.get_state()),  # noqa: NPY002
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "logger levels": {one.name: one.level for one in loggers if one.level},
        "environment": {name: value for name, value in os.environ.items() if name not in SET_BY_IMPORTS},
        "warning filters": list(warnings.filters),
        "directory": os.getcwd(),
        "umask": _umask(),
        "SIGTERM": signal.getsignal(signal.SIGTERM),
        "SIGCHLD": signal.getsignal(signal.SIGCHLD),
        "SIGINT": signal.getsignal(signal.SIGINT),
        "torchvision": sys.modules.get("torchvision", "not imported"),
        "progress bars": (transformers.utils.logging.is_progress_bar_enabled(), datasets.is_progress_bar_enabled()),
    }


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def changed(before):
    after = state()
    return {name: (value, after[name]) for name, value in before.items() if after[name] != value}


def model():
    return raptor.load_model("scenes")


def images(n=4):
    return raptor.load_images("scenes:test", raptor.Preprocessing((64, 64)), images=n, batch_size=2)


def surrogate():
    recipe = raptor.distillation_named("default", steps=2, batch_size=2)
    return raptor.distill(model(), images(), "6-6", recipe)


def folder(tmp_path):
    from pictures import picture

    for value in range(4):
        picture(value * 10).save(tmp_path / f"{value}.png")
    return list(raptor.load_images(tmp_path, raptor.Preprocessing((8, 8)), workers=1))


def table(tmp_path):
    import datasets

    datasets.Dataset.from_dict({"image": [b"x"], "label": [0]}).to_parquet(tmp_path / "a.parquet")
    return raptor.load_images(tmp_path / "a.parquet", raptor.Preprocessing((8, 8)))


CALLS = {
    "load_model": lambda tmp_path: model(),
    "load a surrogate": lambda tmp_path: raptor.load_model("scenes:k2"),
    "load_images of scenes": lambda tmp_path: list(images()),
    "load_images of a folder": folder,
    "load_images of a table": table,
    "inspect": lambda tmp_path: raptor.inspect(model()),
    "rollout": lambda tmp_path: raptor.rollout(TOY, TOY.embed(PIXELS)),
    "layer_norms": lambda tmp_path: raptor.layer_norms(TOY, [PIXELS]),
    "layer_similarity": lambda tmp_path: raptor.layer_similarity(TOY, [PIXELS]),
    "find_phases": lambda tmp_path: raptor.find_phases(TOY, [PIXELS[:3], PIXELS[3:]]),
    "segment": lambda tmp_path: raptor.segment(np.eye(7), 2),
    "intervene": lambda tmp_path: raptor.intervene(TOY, [PIXELS], "3-3"),
    "distill": lambda tmp_path: surrogate(),
    "save a surrogate": lambda tmp_path: raptor.load_model("scenes:k2").module.save_pretrained(tmp_path / "saved"),
    "fidelity": lambda tmp_path: raptor.fidelity(surrogate(), images()),
    "export": lambda tmp_path: raptor.export("scenes:k2", tmp_path / "exported"),
    "read_result": lambda tmp_path: _result(tmp_path),
}


def _result(tmp_path):
    from raptor.runtime.rundir import Run

    with Run("inspect", {}, tmp_path / "run", 0) as run:
        run.record(raptor.inspect(model()), images=0, layers=12)
    return raptor.read_result(tmp_path / "run")


EXPENSIVE = ("fidelity", "export", "save a surrogate")  # in the long suite


def main(names):
    """Make every call twice, and print what each changed: imports of the first may add loggers and filters."""
    import_transformers()
    for name in names:
        call = CALLS[name]
        for turn in ("first", "second"):
            with tempfile.TemporaryDirectory() as folder:
                before = state()
                call(Path(folder))
                print(json.dumps([name, turn, sorted(changed(before))]))


def changes(names):
    """Run calls in a process without beartype, which draws from `random` itself; return what each changed."""
    code = f"import sys, test_global_state; test_global_state.main({names!r})"
    path = os.pathsep.join([*sys.path, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    return {(name, turn): found for name, turn, found in lines}


@pytest.fixture(scope="module")
def cheap():
    return changes([name for name in CALLS if name not in EXPENSIVE])


def check(found, name):
    assert set(found[name, "first"]) <= {"logger levels", "warning filters"}
    assert found[name, "second"] == []


@pytest.mark.parametrize("name", [name for name in CALLS if name not in EXPENSIVE])
def test_a_library_call_changes_nothing(name, cheap):
    check(cheap, name)


@pytest.mark.long
@pytest.mark.parametrize("name", EXPENSIVE)
def test_an_expensive_library_call_changes_nothing(name):
    check(changes([name]), name)


def test_a_change_is_found(monkeypatch):
    before = state()
    torch.rand(1)
    random.random()
    monkeypatch.setenv("RAPTOR_TEST", "1")
    logging.getLogger("transformers").setLevel(logging.DEBUG)
    try:
        assert set(changed(before)) == {"torch generator", "random", "environment", "logger levels"}
    finally:
        logging.getLogger("transformers").setLevel(before["logger levels"].get("transformers", logging.NOTSET))


def test_bars_that_were_turned_off_stay_off():
    bars = import_transformers().utils.logging
    bars.disable_progress_bar()
    try:
        with silence():
            pass
        assert not bars.is_progress_bar_enabled()
    finally:
        bars.enable_progress_bar()
    with silence():
        assert not bars.is_progress_bar_enabled()
    assert bars.is_progress_bar_enabled()
