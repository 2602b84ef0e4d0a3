"""What `raptor dynamics` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

from raptor.data import data_for, load_images
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.dynamics.likeness import distances
from raptor.dynamics.survey import PUSHED, STRETCHED, Dynamics, measure_dynamics
from raptor.dynamics_claims import claims
from raptor.dynamics_result import describe_dynamics
from raptor.errors import OptionError
from raptor.models.pretrained import RaptorModel
from raptor.models.surrogate import Surrogate
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.processes import team
from raptor.progress import Tracked
from raptor.run import Run
from raptor.selection import AUTO

IMAGES = 1000  # unless told otherwise


def dynamics_of(
    model: str,
    data: str | None,
    phases: str | int,
    against: list[str],
    common: Common,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
    pushed: int = PUSHED,
    stretched: int = STRETCHED,
) -> dict[str, Any]:
    """Measure everything of section 4 on one model, and on others beside it."""
    data = data_for(model, data, "dynamics are measured on images")
    own = {"model": model, "data": data, "phases": phases, "against": against, "weights": weights, "head": head}
    with Run("dynamics", common.config(**own, **loading), common.out, common.seed) as run:
        given = phases if isinstance(phases, int) else None if phases == AUTO else Phases.parse(phases)
        teacher = load_teacher(model, common.size, weights, head, common.device)
        if isinstance(given, Phases):
            given.check_depth(teacher.depth)
        if len({model, *against}) <= len(against):
            raise OptionError("a model is laid beside others, each once: leave out what --against names twice")
        others = {name: _alike(name, teacher, common) for name in against}
        pictures = load_images(
            data,
            teacher,
            None,
            common.images or IMAGES,
            batch_size=common.batch,
            seed=common.seed,
            team=team(),
            **loading,
        )
        body = side_by_side(run, {model: teacher, **others}, pictures, given, common, pushed, stretched)
        return run.finish({"model": model, "data": data, **body}, images=body["images"], layers=teacher.depth)


def side_by_side(
    run: Run,
    flows: Mapping[str, Teacher | Surrogate],
    pictures: Images | SceneImages,
    given: Phases | int | None,
    common: Common,
    pushed: int,
    stretched: int,
) -> dict[str, Any]:
    """Measure models on the same images, the first one being what the others are laid beside, and draw them."""
    found = {
        name: _surveyed(flow, pictures, given, f"dynamics of {name}", common, pushed, stretched)
        for name, flow in flows.items()
    }
    first = next(iter(found.values()))
    return {
        **describe_dynamics(first, pictures.classes),
        "images": first.n,
        "claims": claims(first),
        "against": _against(found, pictures.classes),
        "damaged": pictures.damaged,
        "figures": _draw(run, found, pictures.classes),
    }


def _alike(name: str, teacher: Teacher, common: Common) -> Teacher:
    """Load a model whose curves can be laid beside those of the first."""
    other = load_teacher(name, teacher.image_size, device=common.device)
    for what, one, two in (
        ("tokens", teacher.layout, other.layout),
        ("depth", teacher.depth, other.depth),
        ("mean and spread of images", _normalisation(teacher), _normalisation(other)),
    ):
        if one != two:
            raise OptionError(f"{name!r} cannot be laid beside this model: its {what} is {two}, not {one}")
    return other


def _normalisation(teacher: Teacher) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(teacher.preprocessing.mean), tuple(teacher.preprocessing.std)


def _surveyed(
    flow: Teacher | Surrogate,
    pictures: Any,
    given: Phases | int | None,
    label: str,
    common: Common,
    pushed: int,
    stretched: int,
) -> Dynamics:
    """Measure one model; without phases, those of a surrogate are its own and those of a teacher are found."""
    surrogate = _surrogate_in(flow)
    if surrogate is not None and not isinstance(given, Phases):
        given = surrogate.phases
    images = Tracked(pictures, label, common.progress)
    return measure_dynamics(flow, images, given or AUTO, surrogate is not None, common.seed, pushed, stretched)


def _surrogate_in(flow: Teacher | Surrogate) -> Surrogate | None:
    """Return the surrogate that a flow is, or that was loaded as a model."""
    if isinstance(flow, Surrogate):
        return flow
    return flow.module.surrogate if isinstance(flow.module, RaptorModel) else None


def _against(found: dict[str, Dynamics], classes: tuple[str, ...] | None) -> dict[str, Any] | None:
    """Return the other models' dynamics, and how far all pairs are apart."""
    if len(found) == 1:
        return None
    others = list(found)[1:]
    apart = {
        f"{one} | {other}": {
            name: {group: asdict(distance) for group, distance in by_group.items()}
            for name, by_group in distances(found[one], found[other]).items()
        }
        for one, other in combinations(found, 2)
    }
    return {"models": {name: describe_dynamics(found[name], classes) for name in others}, "distances": apart}


def _draw(run: Run, found: dict[str, Dynamics], classes: tuple[str, ...] | None) -> list[str]:
    """Draw all figures into the run directory, each with its numbers beside it."""
    if run.out is None:
        return []
    from raptor.reporting import drawing, dynamics_figures

    run.begin()
    first, *others = found
    figures = dynamics_figures.figures(found[first], first, classes)
    if others:
        figures |= dynamics_figures.side_by_side(found)
    return [drawing.save(figure.chart, run, name, figure.rows) for name, figure in figures.items()]
