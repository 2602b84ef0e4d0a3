"""`raptor.export`: a model for other runtimes, checked against the original."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from raptor.distillation.options import ExportOptions
from raptor.errors import OptionError
from raptor.models.export import FORMATS, write_export
from raptor.models.load import load_model
from raptor.models.teachers.teacher import Teacher
from raptor.render.notebook import HtmlRepr


@dataclass(frozen=True)
class ExportResult(HtmlRepr):
    """A model that was written for another runtime.

    Parameters
    ----------
    format
        `torch-export` or `onnx`.
    file
        Path of the file within the directory.
    max_difference
        Largest absolute difference from the original's output.
    """

    format: str
    file: str
    max_difference: float


def export(model: Teacher | str | Path, out: Path | str, options: ExportOptions | None = None) -> ExportResult:
    """Write a model for another runtime, and compare its output with the original's.

    Parameters
    ----------
    model
        What `load_model` returns or takes; a `Teacher` must be on the CPU.
    out
        Directory to write to.
    options
        The format; `torch-export` by default.
    """
    chosen = options or ExportOptions()
    check_format(chosen.format)
    flow = model if isinstance(model, Teacher) else load_model(model, device="cpu")
    file, difference = write_export(flow, Path(out), chosen.format)
    return ExportResult(chosen.format, str(file.relative_to(out)), difference)


def check_format(name: str) -> None:
    """Raise where there is no such format."""
    if name not in FORMATS:
        raise OptionError(f"unknown format {name!r}; choose {', '.join(FORMATS)}")
