"""The depth film of a model and of surrogates beside it, into a run directory."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch

from raptor.data import HELD_OUT, load_images
from raptor.film import depth_film
from raptor.flow import DepthFlow
from raptor.models.teachers.teacher import Teacher
from raptor.reporting.drawing import save
from raptor.reporting.film_data import ARRAYS, film_arrays
from raptor.reporting.film_figure import film_figure
from raptor.run import Run


def film_images(teacher: Teacher, data: str, n: int, seed: int, loading: dict[str, Any]) -> torch.Tensor:
    """Return the first images that nothing was trained on, as the teacher wants them."""
    pictures = load_images(data, teacher, HELD_OUT, n, batch_size=n, seed=seed, **loading)
    return next(iter(pictures)).pixels[:n]


def film(run: Run, flows: dict[str, DepthFlow], teacher: Teacher, pixels: torch.Tensor, phases: str) -> dict[str, Any]:
    """Film flows on a few images and keep the film in the run directory."""
    found = depth_film(flows, pixels.to(teacher.device))
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (teacher.preprocessing.mean, teacher.preprocessing.std))
    shown = ((pixels.cpu() * std + mean).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    run.begin()
    with run.file(ARRAYS) as file:
        # An archive is written with seeking, which a file that is written atomically need not have.
        buffer = io.BytesIO()
        arrays: dict[str, Any] = film_arrays(found, shown)
        np.savez_compressed(buffer, **arrays)
        file.write(buffer.getvalue())
    figure = film_figure(found)
    drawn = save(figure.chart, run, "film", figure.rows)
    body = {"flows": list(flows), "figures": [drawn], "phases": phases, "explained": found.explained,
            "apart": {flow: array.mean(axis=(0, 2, 3)).tolist() for flow, array in found.apart.items()}}  # fmt: skip
    return run.finish(body, images=len(pixels), layers=teacher.depth)
