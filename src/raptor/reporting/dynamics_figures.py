"""All figures of dynamics: the paper's 6 to 10, and what is beyond it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from raptor.dynamics.geometry import SETTLED
from raptor.dynamics.survey import Dynamics
from raptor.reporting.drawing import Figure
from raptor.reporting.layer_figures import NORM, STATES, STEPS, about, by_layer, curves, of_groups, of_models, rows_of
from raptor.reporting.path_figures import basins, trajectories
from raptor.reporting.push_figures import correction, sensitivity
from raptor.reporting.spectrum_figures import dmd, expansion

PANEL = 220  # pixels
RANKS = {"stable_rank": "stable rank", "entropy_rank": "entropy rank", "participation_ratio": "participation ratio"}
SPEED = "angle between layers (radians)"
# What is laid side by side: name -> its axis, and whether it is of states or of steps.
COMPARED = {
    "norm": (NORM, STATES),
    "gamma": ("cosine with the last layer", STATES),
    "speed": (SPEED, STEPS),
    "stable_rank": ("stable rank", STEPS),
    "coherence": ("coherence", STEPS),
}


def figures(found: Dynamics, name: str, classes: Sequence[str] | None = None) -> dict[str, Figure]:
    """Draw one model."""
    values = found.curves
    ends = () if found.phases is None else found.phases.boundaries
    floor = [{"group": group, "value": value} for group, value in found.coherence_floor.items()]
    drawn = {
        "trajectories": trajectories(found.paths, classes, f"Trajectories on the sphere: {name}"),
        "convergence": by_layer(
            values["gamma"], f"Directional convergence: {name}", COMPARED["gamma"][0],
            cuts=[end + 0.5 for end in ends], levels=[{"value": SETTLED}],
        ),
        "norms": by_layer(values["norm"], f"Norms by layer: {name}", NORM),
        "correction": correction(found.pushed, f"Self-correction: {name}"),
        "sensitivity": sensitivity(found.pushed, f"Sensitivity: {name}"),
        "speed": _speed(found, f"Angular speed and phases: {name}", ends),
        "ranks": _ranks(found, f"Ranks of the updates: {name}"),
        "coherence": by_layer(
            values["coherence"], f"Coherence of updates: {name}", "cosine with the mean update", STEPS, levels=floor
        ),
        "dmd": dmd(found.modes, f"Depth as one linear map: {name}", found.n),
    }  # fmt: skip
    if found.basins:
        drawn["basins"] = basins(found.basins, f"Basins of classes: {name}", found.seed)
    if found.expansion is not None and found.phases is not None:
        drawn["expansion"] = expansion(found.expansion, found.phases, f"Local expansion: {name}")
    if found.beyond is not None:
        drawn["beyond"] = by_layer(
            found.beyond.speed, f"Beyond the last layer: {name}", SPEED, "layers after the last", levels=[{"value": 0}]
        )
    return drawn


def _speed(found: Dynamics, title: str, ends: Sequence[float]) -> Figure:
    """Draw the mean speed; its spread over tokens and images is in the table."""
    figure, spread = by_layer(found.curves["speed"], title, SPEED, STEPS, ends), found.curves["speed_std"].mean
    return Figure(figure.chart, [{**row, "std": spread[row["group"]][row["layer"]]} for row in figure.rows])


def _ranks(found: Dynamics, title: str) -> Figure:
    first = found.curves["stable_rank"]
    panels, rows = [], []
    for name, y in RANKS.items():
        own = rows_of(found.curves[name], measure=name)
        rows += own
        panels.append(curves(own, STEPS, y, of_groups(list(first.mean)), width=PANEL, height=PANEL))
    subtitle = f"of all updates of a group, over tokens and images; {about(first.n, first.seed)}"
    return Figure(alt.hconcat(*panels).properties(title=alt.Title(title, subtitle=subtitle)), rows)


def side_by_side(found: dict[str, Dynamics]) -> dict[str, Figure]:
    """Draw the curves of several models, one row a measure and one column a token group."""
    first = next(iter(found.values()))
    rows, lines = [], []
    for measure, (y, x) in COMPARED.items():
        panels = []
        for group in first.curves[measure].mean:
            own = [
                row
                for model, dynamics in found.items()
                for row in rows_of(dynamics.curves[measure], model=model, measure=measure)
                if row["group"] == group
            ]
            rows += own
            panels.append(curves(own, x, y, of_models(list(found)), width=PANEL, height=PANEL).properties(title=group))
        lines.append(alt.hconcat(*panels))
    title = alt.Title("Side by side", subtitle=about(first.n, first.seed))
    return {"against": Figure(alt.vconcat(*lines).properties(title=title), rows)}
