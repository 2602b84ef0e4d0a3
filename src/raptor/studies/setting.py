"""The setting of a study, and what a teacher and a student give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from raptor.core.batches import LoadedImageSet
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.core.serialize import to_plain
from raptor.data.image_cache import in_memory
from raptor.data.load import HELD_OUT, training_split
from raptor.data.options import LoadOptions
from raptor.models.load import load_model
from raptor.models.teachers.teacher import Teacher
from raptor.studies.size import Scale

Memory = dict[tuple[str, int | None, int], LoadedImageSet]


@dataclass(frozen=True)
class StudySetting:
    """What all jobs of a study share.

    Parameters
    ----------
    data, preprocessing, loading
        Labelled images, how they become pixels, and how they are read.
    size
        Sizes of models, trainings and sets of images.
    root
        Directory of all studies on this data; teachers in it are shared.
    states
        Directory for the states of teachers that students learn from, for as long as the study runs.
    device
        Device to train on.
    announce
        Called with a line before a large file is written.
    memory
        Sets of images that were loaded, by split, number and batch size; several studies may share it.
    """

    data: str
    preprocessing: Preprocessing
    loading: LoadOptions
    size: Scale
    root: Path
    states: Path
    device: str = "cpu"
    announce: Callable[[str], None] = lambda text: None
    memory: Memory = field(default_factory=dict)

    @cached_property
    def cache_key(self) -> dict[str, Any]:
        """The part of every cache key that says what everything is measured on; the seed only where it is not 0."""
        seed = {"seed": self.size.seed} if self.size.seed else {}
        return {"data": self.data, "eval_images": self.size.eval_images, **seed, **to_plain(self.loading)}

    def train(self, images: int | None = None) -> LoadedImageSet:
        """Return the images to train on."""
        return self._images(training_split(None, None), images)

    def for_phases(self) -> LoadedImageSet:
        """Return the images that phases are found on: training images, as many as everything is measured on."""
        return self.train(self.size.eval_images)

    def held_out(self) -> LoadedImageSet:
        """Return the images that everything is measured on."""
        return self._images(HELD_OUT, self.size.eval_images, batch_size=64)

    def _images(self, split: str, images: int | None, batch_size: int = 32) -> LoadedImageSet:
        """Load images once: decoding those of CIFAR takes as long as half of a small ViT's training step."""
        about = (split, images, batch_size)
        if about not in self.memory:
            self.memory[about] = in_memory(
                self.loading.load(self.data, self.preprocessing, split, images, batch_size=batch_size)
            )
        return self.memory[about]

    def teacher(self, name: str, share: float = 1.0) -> Teacher:
        """Load the teacher that a job saved, at the end of its training or after a share of the steps."""
        folder = "model" if share == 1 else f"at-{share:g}"
        return load_model(self.root / name / folder, device=self.device)


@dataclass(frozen=True)
class TeacherResult:
    """A teacher.

    Parameters
    ----------
    condition
        What distinguishes it.
    top1, n
        Share of right answers on the held-out images, and their number.
    train_seconds
        Seconds of training.
    drop_path, seed, share
        Rate of stochastic depth, seed, and the share of the training that is done.
    parameters
        Number of parameters.
    """

    condition: str
    top1: Estimate[float]
    n: int
    train_seconds: float
    drop_path: float
    seed: int
    share: float
    parameters: int


@dataclass(frozen=True)
class StudentResult:
    """A distilled student, measured on the held-out images.

    Parameters
    ----------
    phases
        Its partition of the layers.
    n, parameters
        Number of images, and of parameters of its blocks.
    skill, r2, pearson2, cosine
        Fidelity by token group at the layers 1..L.
    teacher, surrogate, recovered
        Top-1 of both with the teacher's classifier, and the surrogate's divided by the teacher's.
    train_seconds, seed
        Seconds of training, and seed.
    """

    phases: Phases
    n: int
    parameters: int
    skill: LayerEstimates
    r2: LayerEstimates
    pearson2: LayerEstimates
    cosine: LayerEstimates
    teacher: Estimate[float]
    surrogate: Estimate[float]
    recovered: Estimate[float]
    train_seconds: float
    seed: int

    def last(self, measure: str, group: str = "all") -> float:
        """Return `skill`, `r2`, `pearson2` or `cosine` of a token group at the last layer."""
        by_layer: LayerEstimates = getattr(self, measure)
        return by_layer.mean[group][-1]
