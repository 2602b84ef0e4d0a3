"""The stage `film` of `raptor run` and of the report: the depth film of a model and its surrogate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from raptor.data.options import LoadOptions
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import register_result

if TYPE_CHECKING:
    from torch import Tensor

    from raptor.core.flow import DepthFlow
    from raptor.core.phases import PhasesLike
    from raptor.film.film import FilmResult
    from raptor.models.teachers.teacher import Teacher

register_result("film", "film.film:FilmResult")


def film_images(teacher: Teacher, data: str, n: int, seed: int, loading: LoadOptions) -> Tensor:
    """Return the first n held-out images, preprocessed for a teacher, (n, 3, height, width).

    Parameters
    ----------
    teacher
        Model whose preprocessing is used.
    data
        Images, as in `load_images`.
    n
        Number of images.
    seed
        Seed of the held-out split, where the dataset has none.
    loading
        How images are read.
    """
    from raptor.data.load import HELD_OUT

    batch = next(iter(loading.load(data, teacher, HELD_OUT, n, batch_size=n, seed=seed)))
    pixels: Tensor = batch.pixels[:n]
    return pixels


def film_stage(
    run: Run, flows: Mapping[str, DepthFlow], teacher: Teacher, pixels: Tensor, phases: PhasesLike
) -> Record[FilmResult]:
    """Compute the depth film of flows on a few images, and write it to the run directory.

    Parameters
    ----------
    run
        The run, with a directory.
    flows
        By name, the teacher first.
    teacher
        The teacher, whose preprocessing is undone to show the images.
    pixels
        Preprocessed images, (n, 3, height, width).
    phases
        The phases, which the page marks.
    """
    import torch

    from raptor.core.phases import as_phases
    from raptor.film import figures  # noqa: F401 (registers them)
    from raptor.film.arrays import ARRAYS, film_bytes
    from raptor.film.film import FilmResult, depth_film
    from raptor.models.surrogate import surrogate_in
    from raptor.render.charts import draw

    film = depth_film(flows, pixels.to(teacher.device))
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (teacher.preprocessing.mean, teacher.preprocessing.std))
    pictures = ((pixels.cpu() * std + mean).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    run.begin()
    with run.file(ARRAYS) as file:
        file.write(film_bytes(film, pictures))
    surrogates = {name: surrogate_in(flow) for name, flow in flows.items()}
    blocks = {name: one.phases.k for name, one in surrogates.items() if one is not None}
    result = FilmResult.of(film, as_phases(phases), blocks)
    return run.record(result, images=len(pixels), layers=teacher.depth, figures=draw(run, "film", result, teacher.name))
