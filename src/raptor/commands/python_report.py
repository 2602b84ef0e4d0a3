"""`raptor.report`: the page of a model and its surrogate, from Python."""

from __future__ import annotations

import html
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from raptor.commands.dynamics import side_by_side
from raptor.commands.fidelity import draw_fidelity
from raptor.commands.filming import film
from raptor.commands.phases import draw
from raptor.commands.presets import PRESETS
from raptor.dynamics.survey import PUSHED, STRETCHED
from raptor.evaluation import fidelity
from raptor.fidelity_result import describe_fidelity
from raptor.files import writing
from raptor.flow import pixels_of
from raptor.inspection import inspect
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phase_result import describe_phases
from raptor.reporting.collect import collect
from raptor.reporting.page import render
from raptor.run import Run
from raptor.selection import find_phases

FILMED = PRESETS["standard"].filmed


class Report:
    """A page, as text.

    Parameters
    ----------
    page
        The whole file.
    """

    def __init__(self, page: str):
        self.page = page

    def save(self, path: str | Path) -> Path:
        """Write the page."""
        with writing(Path(path)) as file:
            file.write(self.page.encode())
        return Path(path)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.page)}" style="width: 100%; height: 800px; border: 0"></iframe>'


def report(
    teacher: Teacher,
    student: Surrogate | None,
    images: Any,
    seed: int = 0,
    pushed: int = PUSHED,
    stretched: int = STRETCHED,
) -> Report:
    """Measure a model, and a surrogate beside it, and show both on one page.

    Parameters
    ----------
    teacher, student
        The model, and its surrogate where there is one.
    images
        From `load_images`, held out from what the surrogate was trained on.
    seed
        Of everything that is drawn.
    pushed, stretched
        Images of the dear measures, as in `measure_dynamics`.
    """
    with TemporaryDirectory() as folder:
        _measure(Path(folder), teacher, student, images, seed, pushed, stretched)
        return Report(render(collect([Path(folder)])))


def _measure(
    out: Path, teacher: Teacher, student: Surrogate | None, images: Any, seed: int, pushed: int, stretched: int
) -> None:
    """Fill run directories, as the command line would."""
    n, depth = len(images), teacher.depth
    about: dict[str, Any] = {"model": teacher.name, "command": ["report(teacher, student, images)"]}
    with Run("inspect", about, out / "inspect", seed) as run:
        run.finish(inspect(teacher), images=0, layers=depth)
    with Run("phases", about, out / "phases", seed) as run:
        found = find_phases(teacher, images, seed=seed)
        body = {**about, **describe_phases(found), "figures": draw(run, found, teacher.name)}
        run.finish(body, images=found.n, layers=depth)
    flows: dict[str, Any] = {teacher.name: teacher}
    if student is not None:
        with Run("fidelity", about, out / "fidelity", seed) as run:
            measured = fidelity(student, images, seed)
            body = {**about, "phases": str(student.phases), **describe_fidelity(measured)}
            run.finish({**body, "figures": draw_fidelity(run, measured, student)}, images=n, layers=depth)
        flows[f"Raptor {student.phases}"] = student
    with Run("dynamics", about, out / "dynamics", seed) as run:
        common = Common(seed=seed, quiet=True)
        body = side_by_side(run, flows, images, None, common, pushed, stretched)
        run.finish({**about, **body}, images=body["images"], layers=depth)
    with Run("film", about, out / "film", seed) as run:
        pixels = torch.cat(list(islice(pixels_of(images), FILMED)))[:FILMED]
        film(run, flows, teacher, pixels, str(student.phases if student is not None else found.phases))
