"""Commands that take long in practice, each as small as can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from warm import run

COMMON = ("--device", "cpu", "--quiet")
TRAIN = (
    "train", "--data", "scenes", "--steps", 40, "--batch-size", 4, "--depth", 4, "--width", 16, "--heads", 2,
    "--registers", 1, "--drop-path", 0.2, "--muon-lr", 0.003, "--warmup", 5, "--eval-images", 16, *COMMON,
)  # fmt: skip
STUDY = ("study", "partitions", "--size", "smoke", *COMMON)


def distill(teacher: Path) -> tuple[object, ...]:
    """A surrogate of two blocks."""
    return ("distill", teacher, "--data", "scenes", "--phases", "2-2", "--steps", 16, "--batch-size", 4,
            "--eval-images", 8, *COMMON)  # fmt: skip


def phases(teacher: Path) -> tuple[object, ...]:
    """The phases of a model, with their figures."""
    return ("phases", teacher, "--data", "scenes", "--images", 16, "--batch-size", 8, *COMMON)


def pipeline(teacher: Path) -> tuple[object, ...]:
    """Everything; give it the smallest preset."""
    return ("run", teacher, "--data", "scenes", "--preset", "quick", "--batch-size", 8, *COMMON)


def every(teacher: Path, resume: bool = False) -> dict[str, tuple[object, ...]]:
    """Return all commands by verb; with `resume`, those that train continue their run."""
    again = ("--resume",) if resume else ()
    return {
        "train": (*TRAIN, *again),
        "distill": (*distill(teacher), *again),
        "phases": phases(teacher),
        "study": (*STUDY, *again),
        "run": pipeline(teacher),
    }


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """What the training leaves, undisturbed."""
    folder = tmp_path_factory.mktemp("trained") / "train"
    assert run(*TRAIN, "--out", folder) == (0, "")
    return folder
