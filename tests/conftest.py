"""What every test needs before the first import."""

from __future__ import annotations

import os
import sys

import jaxtyping
import pytest
import torch
from hypothesis import settings

from demo_run import demo_run, golden  # noqa: F401
from drawn import stand_in_pictures  # noqa: F401
from pictures import picture
from small_commands import trained  # noqa: F401
from small_disk import disk  # noqa: F401

# How long an example takes is the machine's business, and examples are the same in every run.
settings.register_profile("raptor", deadline=None, derandomize=True)
settings.load_profile("raptor")

# Tests never ask the network; a test that did would fail at once instead of waiting.
os.environ["HF_HUB_OFFLINE"] = "1"

# timm imports torchvision, which may have no build for a CPU-only torch: its compiled operators are missing then.
# Declaring the two whose absence stops the import is enough; nothing in a ViT calls them.
TORCHVISION = torch.library.Library("torchvision", "DEF")
for _signature in (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
):
    if not hasattr(torch.ops.torchvision, _signature.partition("(")[0]):
        TORCHVISION.define(_signature)


# Shapes and types are checked on every call, which takes almost half of the time. These folders test something else,
# with code whose shapes the tests of its own package check.
UNCHECKED = {"benchmarks", "cli", "docs", "faults", "golden", "hostile", "pipeline", "reporting", "studies"}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Turn the checks of shapes on or off, before the fixtures of a test run."""
    jaxtyping.config.update("jaxtyping_disable", bool(UNCHECKED & set(item.path.parts)))


@pytest.fixture(scope="session", autouse=True)
def every_feature_is_registered():
    """Import what registers figures and sentences: a test that replaces a registry must not be the first to do so."""
    from raptor.runtime.verbs import import_features

    import_features("command", "text", "figures")


@pytest.fixture
def call(monkeypatch, capfd):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    from raptor.__main__ import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["raptor", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capfd.readouterr()
        return stop.value.code or 0, out, err

    return run


@pytest.fixture
def flat(tmp_path):
    """A folder of ten pictures, and files beside them that are none."""
    for value in range(10):
        picture(value * 10).save(tmp_path / f"{value}.png")
    (tmp_path / "notes.txt").write_text("not an image, and not named as one")
    (tmp_path / ".hidden.png").write_bytes(b"nor this")
    return tmp_path
