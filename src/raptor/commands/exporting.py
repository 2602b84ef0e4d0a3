"""What `raptor export` does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from raptor.errors import OptionError
from raptor.models.export import FORMATS, export
from raptor.models.teachers import load_teacher
from raptor.options import Common
from raptor.run import Run


def export_model(model: str, form: str, weights: Path | None, common: Common) -> dict[str, Any]:
    """Write a surrogate, or any model, for another runtime."""
    if form not in FORMATS:
        raise OptionError(f"there is no format {form!r}; there are {', '.join(FORMATS)}")
    if common.out is None:
        raise OptionError("an export is written somewhere: name a directory with --out")
    config = common.config(model=model, format=form, weights=weights)
    with Run("export", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, device="cpu")
        run.begin()
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        file, difference = export(teacher, common.out, form)
        name = str(file.relative_to(common.out))
        body = {"model": model, "format": form, "file": name, "max_difference": difference}
        return run.finish(body, images=0, layers=teacher.depth)
