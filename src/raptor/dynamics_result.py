"""The result of `dynamics`, as JSON has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from raptor.dynamics.basins import Basins
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.dmd import DMDError, Modes
from raptor.dynamics.perturbation import Pushed
from raptor.resampling import BinnedMean


def described(name: str, values: ByLayer) -> dict[str, Any]:
    """Return a measure by group, and its intervals beside it."""
    return {name: values.mean, f"{name}_ci": values.ci}


def describe_dmd(modes: dict[str, Modes], error: DMDError, walk: dict[str, Any]) -> dict[str, Any]:
    """Return, by group, the spectrum of the pooled map and how well it does on other images."""
    return {
        group: {
            "eigenvalues": [[value.real.item(), value.imag.item()] for value in one.eigenvalues],
            "rank": len(one.eigenvalues),
            "spectral_radius": one.spectral_radius,
            "median_modulus": one.median_modulus,
            "singular": one.singular[:32].tolist(),
            **_errors("one_step_error", error.one[group]),
            **_errors("rollout_error", error.many[group]),
            "random_walk": walk[group],
        }
        for group, one in modes.items()
    }


def _errors(name: str, mean: BinnedMean) -> dict[str, Any]:
    low, high = mean.interval()
    return {name: mean.mean().tolist(), f"{name}_ci": [low.tolist(), high.tolist()]}


def describe_basins(found: dict[str, Basins]) -> dict[str, Any]:
    """Return, by group, the three curves with their intervals, and where each class separates."""
    bodies = {}
    for group, basins in found.items():
        body = asdict(basins)
        low, high = body.pop("low"), body.pop("high")
        bodies[group] = body | {f"{name}_ci": [low[name], high[name]] for name in low}
    return bodies


def describe_pushes(pushed: Pushed) -> dict[str, Any]:
    """Return sensitivity and self-correction of every group that was pushed, read in itself and in the others."""
    sensitivity: dict[str, Any] = {}
    correction: dict[str, Any] = {}
    for pair in pushed.ends:
        name = f"{pair[0]}->{pair[1]}"
        found = pushed.sensitivity(pair)
        sensitivity[name] = {
            "over_epsilon": found["over_epsilon"].tolist(),
            "over_epsilon_ci": [found["low"].tolist(), found["high"].tolist()],
            "over_square": found["over_square"].tolist(),
        }
        if pair[0] == pair[1]:
            slopes = [[pushed.slope(pair, layer, eps) for eps in pushed.epsilons] for layer in pushed.layers]
            correction[pair[0]] = {
                "slope": [[value for value, _ in row] for row in slopes],
                "slope_ci": [[[ends[side] for _, ends in row] for row in slopes] for side in (0, 1)],
                "return_time": [
                    [pushed.return_time(pair, layer, eps) for eps in pushed.epsilons] for layer in pushed.layers
                ],
            }
    about = {"layers": list(pushed.layers), "epsilons": list(pushed.epsilons), "draws": pushed.draws}
    return {"sensitivity": {**about, **sensitivity}, "correction": {**about, **correction}}
