"""What `raptor phases` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from raptor.commands.inspecting import LOOK
from raptor.data import data_for, load_images
from raptor.errors import MatrixError, OptionError, one_line
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phase_result import describe_phases
from raptor.processes import team
from raptor.progress import Tracked
from raptor.run import Run
from raptor.selection import AUTO, FoundPhases, find_phases

LARGEST = 100_000_000  # bytes of a matrix file


def parse_k(text: str) -> int | str:
    """Read `3` or `auto`."""
    if text == AUTO:
        return text
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise OptionError(f"--k is a number of phases or 'auto', not {text!r}")
    return int(text)


def phases_of_models(
    models: list[str],
    data: str | None,
    weights: Path | None,
    common: Common,
    cutting: dict[str, Any],
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Find the phases of one model, or of several, each with images as it wants them."""
    config = common.config(models=models, data=data, weights=weights, **cutting, **loading)
    with Run("phases", config, common.out, common.seed) as run:
        bodies: list[dict[str, Any]] = []
        results: list[tuple[str, FoundPhases]] = []
        sources = [data_for(model, data, f"the phases of {model!r} are found on images") for model in models]
        for number, (model, source) in enumerate(zip(models, sources, strict=True), 1):
            teacher = load_teacher(model, common.size, weights, None, common.device)
            given = {"images": common.images or LOOK, "batch_size": common.batch, "seed": common.seed, **loading}
            prefix = f"{number}-" if len(models) > 1 else ""
            body, found = phases_of(run, teacher, source, common.progress, cutting, given, prefix)
            bodies.append(body)
            results.append((teacher.name, found))
        images, layers = (max(body[name] for body in bodies) for name in ("images", "layers"))
        if len(models) == 1:
            return run.finish(bodies[0], images, layers)
        return run.finish({"models": bodies, "figures": draw_gallery(run, results)}, images, layers)


def phases_of(
    run: Run,
    teacher: Teacher,
    data: str,
    progress: Console,
    cutting: dict[str, Any],
    loading: dict[str, Any],
    prefix: str = "",
) -> tuple[dict[str, Any], FoundPhases]:
    """Find the phases of one model on images; with a run directory, draw them into it."""
    pictures = load_images(data, teacher, team=team(), **loading)
    tracked = Tracked(pictures, f"similarity of {teacher.name}", progress)
    found = find_phases(teacher, tracked, seed=run.seed, **cutting)
    body = {
        "model": teacher.name,
        "data": data,
        "images": found.n,
        "layers": teacher.depth,
        **describe_phases(found),
        "damaged": pictures.damaged,
        "figures": draw(run, found, teacher.name, prefix),
    }
    return body, found


def phases_of_matrix(file: Path, distance: bool, common: Common, cutting: dict[str, Any]) -> dict[str, Any]:
    """Find the phases in a matrix that somebody measured, of the layers 1..L."""
    with Run("phases", common.config(matrix=file, distance=distance, **cutting), common.out, common.seed) as run:
        matrix = read_matrix(file)
        try:
            found = find_phases(1 - matrix if distance else matrix, seed=common.seed, **{**cutting, "group": "matrix"})
        except MatrixError as error:
            hint = "--distance was given: is it one of similarities?" if distance else "distances 1 - S need --distance"
            raise MatrixError(f"{error} ({hint})") from error
        body = {"matrix": str(file), **describe_phases(found), "figures": draw(run, found, file.name)}
        return run.finish(body, images=0, layers=len(matrix))


def read_matrix(file: Path) -> NDArray[Any]:
    """Read numbers separated by commas, one row a line."""
    try:
        if file.exists() and not file.is_file():
            raise ValueError("it is no file")  # a pipe would be waited for
        if file.stat().st_size > LARGEST:
            raise MatrixError(f"{str(file)!r} has {file.stat().st_size:,} bytes: too large for a layer-layer matrix")
        rows = [line.split(",") for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        if len({len(row) for row in rows}) != 1:
            raise MatrixError(f"the rows of {str(file)!r} are not all of one length: a matrix is layers x layers")
        return np.array([[float(value) for value in row] for row in rows])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        raise MatrixError(
            f"cannot read a matrix of numbers separated by commas from {str(file)!r}: {reason}"
        ) from error


def draw(run: Run, found: FoundPhases, name: str, prefix: str = "") -> list[str]:
    """Draw all figures of one model into the run directory; return their paths in it."""
    if run.out is None:
        return []
    from raptor.reporting import drawing, phase_figures

    run.begin()
    charts = {
        "similarity": phase_figures.similarity(found, f"Similarity between layers: {name}"),
        "remains": phase_figures.remains(found, f"What each description leaves of it: {name}"),
        "descriptions": phase_figures.descriptions(found, f"Drift or phases: {name}"),
        "scores": phase_figures.scores(found, f"Score by number of phases: {name}"),
    }
    if found.bootstrap is not None:
        charts["certainty"] = phase_figures.certainty(found, f"Certainty of the boundaries: {name}")
    return [drawing.save(chart, run, prefix + title) for title, chart in charts.items()]


def draw_gallery(run: Run, models: list[tuple[str, FoundPhases]]) -> list[str]:
    """Draw several models side by side."""
    if run.out is None:
        return []
    from raptor.reporting import drawing, phase_figures

    return [drawing.save(phase_figures.gallery(models, "Similarity between layers"), run, "gallery")]
