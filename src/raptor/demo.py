"""The main job on the embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raptor.commands.inspecting import look
from raptor.commands.phases import phases_of
from raptor.models.teachers import load_teacher
from raptor.options import Common
from raptor.run import Run

IMAGES = 512


def run_demo(out: Path, common: Common) -> dict[str, Any]:
    """Inspect the ViT that ships, measure its norms, find its phases and say what they are."""
    images = common.images or IMAGES
    loading = {"images": images, "batch_size": common.batch}
    with Run("demo", {**common.config(data="scenes"), "images": images}, out, common.seed) as run:
        teacher = load_teacher("scenes", device=common.device)
        inspected = look(run, teacher, "scenes", progress=common.progress, **loading)
        phases, _ = phases_of(run, teacher, "scenes", common.progress, {}, loading)
        figures = [*inspected.pop("figures"), *phases.pop("figures")]
        return run.finish({**inspected, **phases, "figures": figures}, images, teacher.depth)
