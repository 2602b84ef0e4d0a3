"""Numbers that the paper printed on dynamics, beside measured ones. They are never mixed with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from raptor.core.estimate import Estimate
from raptor.dynamics.result import DynamicsResult, ModelDynamics
from raptor.render.tables import Cell, Number, Table

RANK = 6.0  # of the updates in the final phase, stable and effective alike
SOURCE = "DINOv2-Giant, arXiv 2512.19941, section 4"


@dataclass(frozen=True)
class Published:
    """A number on dynamics that the paper printed.

    Parameters
    ----------
    measure
        What it is, in words.
    paper
        What the paper printed.
    """

    measure: str
    paper: str


# By name of a curve, at its last step or at the layer before the last that counts; `dmd` for the linear map.
PUBLISHED = {
    "stable_rank": Published("stable rank of the updates, last step", f"about {RANK:g}"),
    "entropy_rank": Published("effective rank of the updates (here: entropy rank), last step", f"about {RANK:g}"),
    "gamma": Published(
        "cosine with the last layer (layer L - 1 for tokens that the classifier does not read), one layer before it",
        "close to 1",
    ),
    "dmd": Published("largest modulus of DMD eigenvalues", "below 1"),
}
AT = {"stable_rank": -1, "entropy_rank": -1, "gamma": -2}  # index of the curve


def beside_the_paper(result: DynamicsResult) -> Table:
    """Return what the paper printed on dynamics, beside the model and its surrogates.

    Parameters
    ----------
    result
        Dynamics of a model.
    """
    others = {} if result.against is None else result.against.models
    rows: list[tuple[Cell, ...]] = []
    for name, published in PUBLISHED.items():
        for group in result.dmd:
            own = _number(result, name, group)
            if own is not None:
                beside = (
                    _number(model, name, group, f"against/models/{title}/") or "" for title, model in others.items()
                )
                rows.append((published.measure, group, own, *beside, published.paper))
    columns = ("measure", "tokens", "here [95% interval]", *others, f"the paper ({SOURCE})")
    return Table("Beside the numbers that the paper printed", columns, tuple(rows))


def _number(model: ModelDynamics, name: str, group: str, start: str = "") -> Number | None:
    """Return the number of a model with its keys, which begin with `start`; None where it was not measured."""
    found = next(iter(_measured(model, name, group)), None)
    if found is None:
        return None
    value, key, ends = found
    return Number(value, ".2f", start + key, (start + ends[0], start + ends[1]))


def _measured(model: ModelDynamics, name: str, group: str) -> Iterator[tuple[Estimate[float], str, tuple[str, str]]]:
    """Yield the value, its key and the keys of its interval."""
    if name == "dmd" and group in model.dmd:
        key = f"dmd/{group}/spectral_radius"
        yield model.dmd[group].spectral_radius, key, (f"{key}_ci/0", f"{key}_ci/1")
    curve, at = model.curves.get(name), AT.get(name, -1)
    values = () if curve is None else curve.mean.get(group, ())
    if name == "gamma" and group in model.last_layer:
        at = model.last_layer[group] - len(values) - 1  # before the layer that it is a cosine with
    if curve is not None and len(values) >= -at:
        ends = (f"{name}_ci/{group}/0/{at}", f"{name}_ci/{group}/1/{at}")
        yield curve.at(group, at), f"{name}/{group}/{at}", ends
