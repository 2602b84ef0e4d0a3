"""What `raptor intervene` does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from raptor.accuracy import no_accuracy
from raptor.data import data_for, load_images
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.interventions import Contrast, Effect, intervene
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.progress import Tracked
from raptor.run import Run

IMAGES = 500  # unless told otherwise


def intervene_in(
    model: str,
    data: str | None,
    phases: str,
    most: int,
    common: Common,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Replace, interchange, skip and repeat layers of a model, within its phases and across them."""
    data = data_for(model, data, "what layers do is measured on images")
    config = common.config(model=model, data=data, phases=phases, most=most, weights=weights, head=head, **loading)
    given = Phases.parse(phases)
    with Run("intervene", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, head, common.device)
        given.check_depth(teacher.depth)
        n = common.images or IMAGES
        pictures = load_images(data, teacher, None, n, batch_size=common.batch, seed=common.seed, **loading)
        body = change_layers(run, teacher, pictures, given, most, common)
        return run.finish({"model": model, "data": data, **body}, images=body["images"], layers=teacher.depth)


def change_layers(
    run: Run, teacher: Teacher, pictures: Images | SceneImages, phases: Phases, most: int, common: Common
) -> dict[str, Any]:
    """Run all experiments on one model and draw them."""
    found, own = intervene(teacher, Tracked(pictures, "interventions", common.progress), phases, most, common.seed)
    measured = "accuracy" if no_accuracy(teacher, next(iter(pictures)), pictures.classes) is None else "cosine"
    seen = len(pictures) - len(pictures.damaged)
    return {
        "phases": str(phases),
        "images": seen,
        "measure": measured,
        "untouched": asdict(own),
        **{name: {str(n): asdict(one) for n, one in by_n.items()} for name, by_n in found.items()},
        "damaged": pictures.damaged,
        "figures": _draw(run, found, own, measured, f"Layers changed: {teacher.name}", seen),
    }


def _draw(run: Run, found: dict[str, dict[int, Contrast]], own: Effect, measure: str, title: str, n: int) -> list[str]:
    if run.out is None:
        return []
    from raptor.reporting import drawing, intervention_figures

    run.begin()
    figure = intervention_figures.interventions(found, own, measure, title, n, run.seed)
    return [drawing.save(figure.chart, run, "interventions", figure.rows)]
