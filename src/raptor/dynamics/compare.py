"""Compare the dynamics of several models, such as a teacher and its surrogates, on the same images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from raptor.core.batches import ImageSource, as_image_set
from raptor.core.flow import DepthFlow
from raptor.core.phases import PhasesLike, as_phases
from raptor.core.tokens import OUTLIER
from raptor.dynamics.dmd.distance import operator_distance, reduced
from raptor.dynamics.dmd.same_system import Maps, same_system
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.result import Against, CurveDistance, DynamicsResult, ModelDynamics
from raptor.dynamics.survey import measure_model
from raptor.errors import OptionError
from raptor.inspection.separate import separation
from raptor.models.surrogate import surrogate_in
from raptor.models.teachers.teacher import Teacher
from raptor.phases.options import AUTO
from raptor.runtime.progress import ProgressLike


def compare_dynamics(
    flows: Mapping[str, DepthFlow],
    images: ImageSource,
    phases: PhasesLike | int | None = AUTO,
    options: DynamicsOptions | None = None,
    progress: ProgressLike = True,
) -> DynamicsResult:
    """Measure several models on the same images; the result is that of the first, with the others in `.against`.

    Parameters
    ----------
    flows
        Models by name, with the same tokens and depth. The first is the one that the others are compared with.
    images
        Batches of pixels, or what `load_images` returned, preprocessed for the first model.
    phases
        As in `measure_dynamics`. A number of phases is for teachers: surrogates have their own.
    options
        As in `measure_dynamics`.
    progress
        As in `measure_dynamics`.
    """
    if not flows:
        raise OptionError("compare_dynamics needs at least one model")
    check_comparable(flows)
    options, image_set = options or DynamicsOptions(), as_image_set(images)
    if phases is not None and not isinstance(phases, int) and phases != AUTO:
        phases = as_phases(phases)  # a mistake is one before anything is measured
    separated = separation(options.outliers, next(iter(flows.values())), image_set)  # the same patches in all models
    models: dict[str, ModelDynamics] = {}
    for name, flow in flows.items():
        own = AUTO if isinstance(phases, int) and surrogate_in(flow) is not None else phases
        models[name] = measure_model(flow, image_set, own, options, progress, name, separated)
    first, *others = models
    against = None
    if others:
        distances = {
            f"{one} | {other}": curve_distances(models[one], models[other]) for one, other in combinations(models, 2)
        }
        operators = {
            f"{one} | {other}": operator_distances(models[one], models[other], options.seed)
            for one, other in combinations(models, 2)
        }
        systems = {
            f"{first} | {name}": found
            for name in others
            if (found := same_system(_maps(models[first]), _maps(models[name]), models[first].n, options.seed))
        }
        against = Against({name: models[name] for name in others}, distances, operators, systems)
    return DynamicsResult.of(models[first], against)


def _maps(model: ModelDynamics) -> Maps:
    """Return the linear maps of a model by token group, without outliers; result.json does not have them."""
    return {group: dmd.maps for group, dmd in model.dmd.items() if dmd.maps and group != OUTLIER}


def check_comparable(flows: Mapping[str, DepthFlow]) -> None:
    """Raise where a model's tokens, depth or image normalisation differ from those of the first."""
    (first, reference), *others = flows.items()
    for name, flow in others:
        for what, one, two in (
            ("token layout", reference.layout, flow.layout),
            ("depth", reference.depth, flow.depth),
            ("image normalisation", *map(_normalisation, (reference, flow))),
        ):
            if one != two and None not in (one, two):
                raise OptionError(f"{name!r} cannot be compared with {first!r}: its {what} is {two}, not {one}")


def _normalisation(flow: DepthFlow) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the mean and standard deviation of a teacher's pixels; other flows have none."""
    return (tuple(flow.preprocessing.mean), tuple(flow.preprocessing.std)) if isinstance(flow, Teacher) else None


def curve_distances(one: ModelDynamics, other: ModelDynamics) -> dict[str, dict[str, CurveDistance]]:
    """Return the distance between the curves of two models, by measure and token group.

    Parameters
    ----------
    one, other
        Dynamics of models with the same tokens and depth; distances are relative to the curves of the first.
    """
    theirs = _curves(other)
    return {
        name: {group: _curve_distance(values, theirs[name][group]) for group, values in groups.items()}
        for name, groups in _curves(one).items()
        if name in theirs
    }


def operator_distances(one: ModelDynamics, other: ModelDynamics, seed: int = 0) -> dict[str, float]:
    """Return the distance between the linear maps of two models, by token group.

    Parameters
    ----------
    one, other
        Dynamics of two models, with their maps.
    seed
        Seed of the search.
    """
    found = {}
    for group, dmd in one.dmd.items():
        theirs = other.dmd[group].modes
        if dmd.modes is not None and theirs is not None:  # result.json does not have them
            found[group] = operator_distance(reduced(dmd.modes), reduced(theirs), seed)
    return found


def _curves(model: ModelDynamics) -> dict[str, dict[str, list[float]]]:
    """Return everything with one number per layer, step or mode."""
    curves = {name: values.mean for name, values in model.curves.items()}
    curves["sensitivity"] = {group: model.sensitivity.shown(group) for group in model.dmd}
    # Moduli, because the angles of conjugate pairs have no order.
    curves["dmd_modulus"] = {group: [abs(value) for value in dmd.eigenvalues] for group, dmd in model.dmd.items()}
    if model.basins:
        for name in ("within", "between", "nearest"):
            curves[name] = {group: getattr(basins, name).value for group, basins in model.basins.items()}
    return curves


def _curve_distance(one: Sequence[float], other: Sequence[float]) -> CurveDistance:
    n = min(len(one), len(other))  # linear maps of two models may differ in rank
    first, gap = np.array(one[:n]), np.abs(np.array(one[:n]) - np.array(other[:n]))
    extent = float(first.max() - first.min())
    mean = float(gap.mean())
    flat = extent <= 1e-6 * float(np.abs(first).max())
    return CurveDistance(mean, float(gap.max()), math.nan if flat else mean / extent)
