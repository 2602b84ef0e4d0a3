"""What `raptor dynamics` does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from raptor.data import data_for, load_images
from raptor.dynamics.basins import BasinMeasure, ClassMeans
from raptor.dynamics.boundaries import boundary_test
from raptor.dynamics.dmd import DMDError, PooledDMD, random_walk
from raptor.dynamics.expansion import expansion
from raptor.dynamics.fixed_points import settle
from raptor.dynamics.geometry import Convergence, Norms, Speed
from raptor.dynamics.halves import Half
from raptor.dynamics.motion import Measure, Motion, observe
from raptor.dynamics.perturbation import push
from raptor.dynamics.updates import Coherence, UpdateRanks
from raptor.dynamics_result import describe_basins, describe_dmd, describe_pushes, described
from raptor.errors import DataError
from raptor.models.pretrained import RaptorModel
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.progress import Tracked
from raptor.run import Run
from raptor.tokens import TokenLayout

IMAGES = 1000  # unless told otherwise
PUSHED = 32  # of them are pushed off their trajectories
STRETCHED = 4  # of them have their exponents measured


def dynamics_of(
    model: str,
    data: str | None,
    phases: str | None,
    common: Common,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Measure everything of section 4 on one model."""
    data = data_for(model, data, "dynamics are measured on images")
    config = common.config(model=model, data=data, phases=phases, weights=weights, head=head, **loading)
    given = None if phases is None else Phases.parse(phases)
    with Run("dynamics", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, head, common.device)
        if given is not None:
            given.check_depth(teacher.depth)
        pictures = load_images(
            data, teacher, None, common.images or IMAGES, batch_size=common.batch, seed=common.seed, **loading
        )
        if len(pictures) < 2:
            raise DataError(
                f"dynamics are fitted on one half of the images and judged on the other: {len(pictures)} is too few"
            )
        images = Tracked(pictures, "dynamics", common.progress)
        body = measured(teacher, images, given, common.seed)
        about = {"model": model, "data": data, "phases": None if given is None else str(given)}
        n = body.pop("n")
        return run.finish({**about, **body, "damaged": pictures.damaged}, images=n, layers=teacher.depth)


def measured(teacher: Teacher, images: Any, phases: Phases | None, seed: int = 0) -> dict[str, Any]:
    """Run all measures in two passes over the images, and the dear ones on a few."""
    labelled = images.classes is not None
    norms, gamma, speed, ranks, coherence = Norms(), Convergence(), Speed(), UpdateRanks(), Coherence()
    pooled, means = PooledDMD(), ClassMeans()
    first: list[Measure] = [norms, gamma, speed, ranks, coherence, Half(pooled, 0)]
    observe(teacher, images, *first, *([means] if labelled else []))
    modes = pooled.result()
    error, basins = DMDError(modes), BasinMeasure(means)
    observe(teacher, images, Half(error, 1), *([basins] if labelled else []))
    speeds = speed.result(seed)
    body: dict[str, Any] = {"n": speeds.n}
    for name, values in (("norm", norms.result(seed)), ("gamma", gamma.result(seed)), ("speed", speeds),
                         ("speed_std", speed.spread(seed)), *ranks.result(seed).items(),
                         ("coherence", coherence.result(seed))):  # fmt: skip
        body |= described(name, values)
    body["coherence_floor"] = coherence.floor
    body["settled_layer"] = {group: layer for group, (layer, _) in gamma.settled(seed).items()}
    body["settled_layer_ci"] = {group: list(ends) for group, (_, ends) in gamma.settled(seed).items()}
    body["dmd"] = describe_dmd(modes, error, {group: _walk(speeds.mean[group], teacher.width, seed) for group in modes})
    body["basins"] = describe_basins(basins.result(seed)) if labelled else None
    few = next(iter(images))
    body |= describe_pushes(push(teacher, [few.pixels[:PUSHED]], seed=seed))
    body["speed_at_boundaries"], body["lyapunov"] = None, None
    if phases is not None:
        tests = {group: boundary_test(values, phases) for group, values in speeds.mean.items()}
        body["speed_at_boundaries"] = {group: None if test is None else asdict(test) for group, test in tests.items()}
        body["lyapunov"] = asdict(expansion(teacher, [few.pixels[:STRETCHED]], phases, seed=seed))
    if isinstance(teacher.module, RaptorModel):
        body["beyond"] = asdict(settle(teacher, [few.pixels[:PUSHED]], seed=seed))
    return body


def _walk(speeds: list[float], width: int, seed: int, images: int = 500) -> dict[str, float]:
    """Return what the same fit gives of a walk without memory that is as fast."""
    pooled, layout = PooledDMD(), TokenLayout(0, 0, (1, 1))
    fitted, other = (Motion(random_walk(speeds, width, images, seed + part), layout) for part in (0, 1))
    pooled.add(fitted)
    modes = pooled.result()
    error = DMDError(modes)
    error.add(other)
    radius, median = modes["patch"].spectral_radius, modes["patch"].median_modulus
    return {
        "spectral_radius": radius, "median_modulus": median, "one_step_error": error.one["patch"].mean().mean().item(),
    }  # fmt: skip
