"""What `raptor intervene` does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from raptor.data import data_for, load_images
from raptor.interventions import Contrast, Effect, intervene
from raptor.models.teachers import load_teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.progress import track
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
        batches = track(pictures, len(pictures), "interventions", common.progress)
        found, own = intervene(teacher, batches, given, most, common.seed)
        measured = "accuracy" if teacher.head is not None and pictures.classes is not None else "cosine"
        body: dict[str, Any] = {
            "model": model,
            "data": data,
            "phases": str(given),
            "measure": measured,
            "untouched": asdict(own),
            **{name: {str(n): asdict(one) for n, one in by_n.items()} for name, by_n in found.items()},
            "damaged": pictures.damaged,
        }
        seen = len(pictures) - len(pictures.damaged)
        body["figures"] = _draw(run, found, own, measured, f"Layers changed: {teacher.name}", seen)
        return run.finish(body, images=seen, layers=teacher.depth)


def _draw(run: Run, found: dict[str, dict[int, Contrast]], own: Effect, measure: str, title: str, n: int) -> list[str]:
    if run.out is None:
        return []
    from raptor.report import drawing, intervention_figures

    run.begin()
    figure = intervention_figures.interventions(found, own, measure, title, n, run.seed)
    return [drawing.save(figure.chart, run, "interventions", figure.rows)]
