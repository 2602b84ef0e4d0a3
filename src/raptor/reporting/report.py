"""`raptor.report`: the page of a model and its surrogate, from Python."""

from __future__ import annotations

import html
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from raptor.core.batches import LoadedImageSet, pixels_of
from raptor.core.deprecation import renamed_keywords
from raptor.dynamics.compare import compare_dynamics
from raptor.dynamics.options import DynamicsOptions
from raptor.evaluation.evaluate import fidelity
from raptor.film.command import film_stage
from raptor.inspection.inspect import inspect
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.phases.find import find_phases
from raptor.render.charts import draw
from raptor.reporting.collect import collect
from raptor.reporting.page import render
from raptor.runtime.files import writing
from raptor.runtime.rundir import Run
from raptor.runtime.verbs import import_features

FILM_IMAGES = 6


class Report:
    """A page, which shows itself in a notebook.

    Parameters
    ----------
    page
        The html of the whole file.
    """

    def __init__(self, page: str):
        self.page = page

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; return its path."""
        with writing(Path(path)) as file:
            file.write(self.page.encode())
        return Path(path)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.page)}" style="width: 100%; height: 800px; border: 0"></iframe>'


@renamed_keywords(pushed="perturbation_images", stretched="lyapunov_images")
def report(
    teacher: Teacher,
    student: Surrogate | None,
    images: LoadedImageSet,
    seed: int = 0,
    perturbation_images: int = DynamicsOptions.perturbation_images,
    lyapunov_images: int = DynamicsOptions.lyapunov_images,
) -> Report:
    """Measure a model and its surrogate, and show both on one page.

    Parameters
    ----------
    teacher, student
        The model, and its surrogate; None where there is none.
    images
        Held-out images from `load_images`, on which the surrogate was not trained.
    seed
        Seed of everything random.
    perturbation_images, lyapunov_images
        Number of images for perturbations and for Lyapunov exponents, as in `measure_dynamics`.
    """
    import_features("figures")
    with TemporaryDirectory() as folder:
        _measure(Path(folder), teacher, student, images, seed, perturbation_images, lyapunov_images)
        return Report(render(collect([Path(folder)])))


def _measure(
    out: Path,
    teacher: Teacher,
    student: Surrogate | None,
    images: LoadedImageSet,
    seed: int,
    perturbation_images: int,
    lyapunov_images: int,
) -> None:
    """Write run directories as the command line would."""
    n, depth = len(images), teacher.depth
    about: dict[str, Any] = {"model": teacher.name, "command": ["report(teacher, student, images)"]}
    with Run("inspect", about, out / "inspect", seed) as run:
        run.record(inspect(teacher), images=0, layers=depth)
    with Run("phases", about, out / "phases", seed) as run:
        found = find_phases(teacher, images, seed=seed)
        drawn = draw(run, "phases", found, teacher.name)
        run.record(found, images=found.n, layers=depth, about=about, figures=drawn)
    flows: dict[str, Any] = {teacher.name: teacher}
    if student is not None:
        with Run("fidelity", about, out / "fidelity", seed) as run:
            measured = fidelity(student, images, seed)
            drawn = draw(run, "fidelity", measured, teacher.name)
            run.record(measured, images=n, layers=depth, about=about, figures=drawn)
        flows[f"Raptor {student.phases}"] = student
    with Run("dynamics", about, out / "dynamics", seed) as run:
        options = DynamicsOptions(perturbation_images=perturbation_images, lyapunov_images=lyapunov_images, seed=seed)
        dynamics = compare_dynamics(flows, images, options=options)
        run.record(
            dynamics, images=dynamics.n, layers=depth, about=about, damaged=images.damaged,
            figures=draw(run, "dynamics", dynamics, teacher.name),
        )  # fmt: skip
    with Run("film", about, out / "film", seed) as run:
        pixels = torch.cat(list(islice(pixels_of(images), FILM_IMAGES)))[:FILM_IMAGES]
        film_stage(run, flows, teacher, pixels, student.phases if student is not None else found.phases)
