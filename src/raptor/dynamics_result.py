"""The result of `dynamics`, as JSON has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from raptor.dynamics.basins import Basins
from raptor.dynamics.dmd import SINGULAR
from raptor.dynamics.expansion import Expansion
from raptor.dynamics.fixed_points import Settling
from raptor.dynamics.image_dmd import ImageModes
from raptor.dynamics.paths import Paths, class_name
from raptor.dynamics.survey import Dynamics
from raptor.resampling import BinnedMean


def describe_dynamics(found: Dynamics, classes: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the body of the result; names of classes stand for their numbers."""
    body: dict[str, Any] = {}
    for name, values in found.curves.items():
        body |= {name: values.mean, f"{name}_ci": values.ci}
    for name, values in found.image_ranks.items():
        body |= {f"image_{name}": values.mean, f"image_{name}_ci": values.ci, "image_ranks_of": values.n}
    body["coherence_floor"] = found.coherence_floor
    body["settled_layer"] = {group: layer for group, (layer, _) in found.settled.items()}
    body["settled_layer_ci"] = {group: list(ends) for group, (_, ends) in found.settled.items()}
    body["dmd"] = _dmd(found)
    body["paths"] = {group: _paths(paths, classes) for group, paths in found.paths.items()}
    body["basins"] = None if found.basins is None else _basins(found.basins, classes)
    body |= _pushes(found)
    body["phases"] = None if found.phases is None else str(found.phases)
    body["speed_at_boundaries"] = {
        group: {source: None if test is None else asdict(test) for source, test in tests.items()}
        for group, tests in found.boundaries.items()
    }
    body["lyapunov"] = None if found.expansion is None else _lyapunov(found.expansion)
    if found.beyond is not None:
        body["beyond"] = _beyond(found.beyond)
    return body


def _lyapunov(found: Expansion) -> dict[str, Any]:
    return {"mean": found.mean, "mean_ci": [found.low, found.high], "n": found.n}


def _beyond(found: Settling) -> dict[str, Any]:
    speed = {"speed": found.speed.mean, "speed_ci": found.speed.ci, "n": found.speed.n}
    return {**speed, "from_last": found.from_last, "settled": found.settled, "rate": found.rate}


def _paths(paths: Paths, classes: Sequence[str] | None) -> dict[str, Any]:
    by_class = {
        name: {class_name(number, classes): value for number, value in getattr(paths, name).items()}
        for name in ("classes", "spread", "count")
    }
    examples = [{"class": class_name(number, classes), "path": path} for number, path in paths.examples]
    return {"explained": paths.explained, **by_class, "examples": examples}


def _dmd(found: Dynamics) -> dict[str, Any]:
    """Return, by group, the spectrum of the pooled map, how well it does on other images, and maps of single images."""
    error = found.dmd_error
    return {
        group: {
            "eigenvalues": [[value.real.item(), value.imag.item()] for value in one.eigenvalues],
            "rank": len(one.eigenvalues),
            "spectral_radius": one.spectral_radius,
            "median_modulus": one.median_modulus,
            "singular": one.singular[:SINGULAR].tolist(),
            **_errors("one_step_error", error.one[group], found.seed),
            **_errors("rollout_error", error.many[group], found.seed),
            "amplitudes": one.amplitudes().abs().tolist(),
            "random_walk": asdict(found.walks[group]),
            "single_images": _single(found.image_modes[group]),
        }
        for group, one in found.modes.items()
    }


def _single(modes: ImageModes) -> dict[str, Any]:
    body = asdict(modes)
    ends = body.pop("ci")
    return {**body, **{f"{name}_ci": list(values) for name, values in ends.items()}}


def _errors(name: str, mean: BinnedMean, seed: int) -> dict[str, Any]:
    low, high = mean.interval(seed=seed)
    return {name: mean.mean().tolist(), f"{name}_ci": [low.tolist(), high.tolist()]}


def _basins(found: dict[str, Basins], classes: Sequence[str] | None) -> dict[str, Any]:
    """Return, by group, the three curves with their intervals, and where each class separates."""
    bodies = {}
    for group, basins in found.items():
        body = asdict(basins)
        low, high = body.pop("low"), body.pop("high")
        body["separated"] = {class_name(number, classes): layer for number, layer in basins.separated.items()}
        bodies[group] = body | {f"{name}_ci": [low[name], high[name]] for name in low}
    return bodies


def _pushes(found: Dynamics) -> dict[str, Any]:
    """Return sensitivity and self-correction of every group that was pushed, read in itself and in the others."""
    pushed, gamma = found.pushed, found.curves["gamma"].mean
    sensitivity: dict[str, Any] = {}
    correction: dict[str, Any] = {}
    for pair in pushed.ends:
        name = f"{pair[0]}->{pair[1]}"
        ends = pushed.sensitivity(pair)
        sensitivity[name] = {
            "over_epsilon": ends["over_epsilon"].tolist(),
            "over_epsilon_ci": [ends["low"].tolist(), ends["high"].tolist()],
            "over_square": ends["over_square"].tolist(),
        }
        if pair[0] == pair[1]:
            depths = [pushed.basin_depth(pair[0], gamma[pair[0]], eps) for eps in pushed.epsilons]
            slopes = [[pushed.slope(pair, layer, eps) for eps in pushed.epsilons] for layer in pushed.layers]
            correction[pair[0]] = {
                "slope": [[value for value, _ in row] for row in slopes],
                "slope_ci": [[[interval[side] for _, interval in row] for row in slopes] for side in (0, 1)],
                "return_time": [
                    [pushed.return_time(pair, layer, eps) for eps in pushed.epsilons] for layer in pushed.layers
                ],
                "return_time_and_gamma": [value for value, _, _ in depths],
                "return_time_and_gamma_p": [p for _, p, _ in depths],
                "return_time_and_gamma_layers": [n for _, _, n in depths],
            }
    about = {
        "layers": list(pushed.layers),
        "epsilons": list(pushed.epsilons),
        "draws": pushed.draws,
        "images": pushed.n,
    }
    return {"sensitivity": {**about, **sensitivity}, "correction": {**about, **correction}}
