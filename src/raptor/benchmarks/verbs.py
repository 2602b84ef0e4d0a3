"""What verbs cost beside the forward passes that they need at the least, and how long they take to start."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import torch

from raptor.core.batches import LoadedImageSet
from raptor.core.flow import DepthFlow, last_state
from raptor.data.load import load_images
from raptor.dynamics.survey import measure_dynamics
from raptor.evaluation.evaluate import fidelity
from raptor.models.load import load_model
from raptor.models.pretrained import RaptorModel, with_teacher
from raptor.models.surrogate import Surrogate
from raptor.phases.find import find_phases
from raptor.runtime.malloc import keep_freed_memory
from raptor.runtime.timing import Ratio, compare

IMAGES = 1000  # the default of `raptor dynamics` and `raptor phases`
FIRST_BATCH = (
    "import raptor; teacher = raptor.load_model('scenes'); images = raptor.load_images('scenes', teacher, images=32); "
    "teacher.embed(next(iter(images)).pixels)"
)
START = 3.0  # seconds from the start of Python to the first batch


@cache
def _scenes() -> tuple[Surrogate, LoadedImageSet]:
    """Return a bundled surrogate with its teacher, and images in memory, so that generating them costs both sides."""
    keep_freed_memory()  # as the command does
    saved, teacher = load_model("scenes:k3"), load_model("scenes")
    assert isinstance(saved.module, RaptorModel)
    return with_teacher(saved.module, teacher), load_images("scenes:test", teacher, images=IMAGES)


@torch.no_grad()
def _forward(flow: DepthFlow, images: LoadedImageSet, start: int = 0) -> None:
    for batch in images:
        last_state(flow, flow.embed(batch.pixels), start)


def phases_against_forward() -> Ratio:
    """Similarity, partitions, candidate models and the bootstrap, against one pass of the model."""
    both, images = _scenes()
    return compare(
        f"phases of scenes on {IMAGES} images against one forward pass",
        lambda: find_phases(both.teacher, images, progress=False), lambda: _forward(both.teacher, images),
        limit=1.5, rounds=3,
    )  # fmt: skip


def fidelity_against_forward() -> Ratio:
    """All of `fidelity`, against a pass of the teacher, two of the surrogate, and the teacher's after every phase.

    The surrogate runs twice: rolled out from layer 0, and one step from each of the teacher's states.
    """
    both, images = _scenes()

    def needed() -> None:
        _forward(both.teacher, images)
        _forward(both, images)
        _forward(both, images)
        for end in both.phases.boundaries:
            _forward(both.teacher, images, end)

    return compare(
        f"fidelity of scenes:k3 on {IMAGES} images against the forward passes that it needs",
        lambda: fidelity(both, images, progress=False), needed, limit=2.0, rounds=3,
    )  # fmt: skip


def all_dynamics_against_forward() -> Ratio:
    """All of `dynamics` with its defaults, perturbations and exponents included, against one pass of the model."""
    both, images = _scenes()
    return compare(
        f"dynamics of scenes on {IMAGES} images, all measures, against one forward pass",
        lambda: measure_dynamics(both.teacher, images, progress=False), lambda: _forward(both.teacher, images),
        limit=8.0, rounds=1,
    )  # fmt: skip


def start_against_three_seconds() -> Ratio:
    """From the start of Python to the first batch, against three seconds."""
    import time

    return compare(
        "from the start of Python to the first batch, against three seconds",
        lambda: subprocess.run([sys.executable, "-c", FIRST_BATCH], check=True),
        lambda: time.sleep(START), limit=1.0, rounds=3,
    )  # fmt: skip
