"""What `raptor inspect` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from raptor.data import default_data, load_images
from raptor.dynamics.geometry import layer_norms
from raptor.inspection import inspect
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.progress import track
from raptor.run import Run

LOOK = 1000  # images that a first look uses unless told otherwise


def inspect_model(
    model: str, data: str | None, weights: Path | None, head: Path | None, common: Common, loading: dict[str, Any]
) -> dict[str, Any]:
    """Describe a model; with data, also measure and draw its norms by layer."""
    config = common.config(model=model, data=data, weights=weights, head=head, **loading)
    with Run("inspect", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, head, common.device)
        source = default_data(model) if data is None else data
        if source is None:
            return run.finish(inspect(teacher), images=0, layers=teacher.depth)
        body = look(
            run, teacher, source, progress=common.progress, images=common.images or LOOK, seed=run.seed,
            batch_size=common.batch, **loading,
        )  # fmt: skip
        return run.finish(body, body["images"], teacher.depth)


def look(run: Run, teacher: Teacher, data: str, *, progress: Console, **loading: Any) -> dict[str, Any]:
    """Describe a teacher and measure its norms on images; with a run directory, draw them into it."""
    pictures = load_images(data, teacher, **loading)
    run.begin()
    batches = track(pictures, len(pictures), "norms", progress)
    norms = layer_norms(teacher, batches, seed=run.seed)
    classes = pictures.classes
    body = {
        **inspect(teacher),
        "data": data,
        "images": norms.n,
        "classes": None if classes is None else len(classes),
        "norm": norms.mean,
        "norm_ci": norms.ci,
        "damaged": pictures.damaged,
    }
    if run.out is not None:
        from raptor.reporting import drawing, layer_figures

        figure = layer_figures.by_layer(norms, f"Norms by layer: {teacher.name}", layer_figures.NORM)
        body["figures"] = [drawing.save(figure.chart, run, "norms", figure.rows)]
    return body
