"""What the paper says of depth as a dynamical system, and whether a model bears it out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raptor.dynamics.ranking import rank_correlation
from raptor.dynamics.survey import Dynamics

PUSH = 0.1  # the push that is spoken of
SIGNIFICANT = 0.05


def claims(found: Dynamics) -> list[dict[str, Any]]:
    """Return claims, each with whether it holds here (None: cannot be told) and the numbers that say so."""
    parts = (_order(found), _corrects(found), _decays(found), _boundaries(found), _ranks(found), _together(found),
             _disc(found), _memory(found), _basins(found))  # fmt: skip
    return [{"text": text, "held": held, "evidence": evidence} for text, held, evidence in parts]


Claim = tuple[str, bool | None, str]


def _listed(values: Iterable[tuple[str, float]], form: str = ".3f") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values)


def _order(found: Dynamics) -> Claim:
    layers = {group: layer for group, (layer, _) in found.settled.items()}
    order = [layers[group] for group in ("register", "patch", "cls") if group in layers]
    evidence = "first layer with gamma above 0.9: " + _listed(
        ((group, float(layer)) for group, layer in layers.items()), ".0f"
    )
    held = order == sorted(order) if len(order) > 1 else None
    return "directions settle in the order registers, patches, cls", held, evidence


def _corrects(found: Dynamics) -> Claim:
    slopes = {group: found.pushed.slope((group, group), 0, PUSH) for group in found.modes}
    ends = [f"{group} {value:.3f} [{low:.3f}, {high:.3f}]" for group, (value, (low, high)) in slopes.items()]
    held = all(high < 0 for _, (_, high) in slopes.values())
    evidence = f"slope of the log angle a layer after a push of {PUSH} at layer 0: {', '.join(ends)}"
    return "pushed trajectories bend back", held, evidence


def _decays(found: Dynamics) -> Claim:
    at = found.pushed.epsilons.index(PUSH)
    ends = {group: found.pushed.sensitivity((group, group))["over_square"][:, at] for group in found.modes}
    rank = {group: _trend(values.tolist()) for group, values in ends.items()}
    text = "the end is less sensitive to later pushes of patches, and more to late ones of cls"
    evidence = "rank correlation of sensitivity with the layer of the push: " + _listed(rank.items(), ".2f")
    if "cls" not in ends:
        return text, None, evidence
    late = (ends["cls"][-1] / ends["cls"][len(ends["cls"]) // 2]).item()
    evidence += f"; cls, of the last layer over the middle one: {late:.2f}"
    return text, rank["patch"] < 0 and late > 1, evidence


def _trend(values: list[float]) -> float:
    return rank_correlation(range(len(values)), values)[0]


def _boundaries(found: Dynamics) -> Claim:
    tests = {
        f"{group} at cuts of {source}": test
        for group, by_source in found.boundaries.items()
        for source, test in by_source.items()
        if test is not None
    }
    text = "tokens are faster where phases meet"
    if not tests:
        return text, None, "there is one phase, or nothing beside the boundaries"
    name, test = min(tests.items(), key=lambda item: item[1].p)
    evidence = (
        f"smallest p of {len(tests)} comparisons: {test.p:.3f} (it could be {test.smallest:.3f}), of {name}: mean "
        f"speed {test.at_boundaries:.3f} there, {test.elsewhere:.3f} elsewhere"
    )
    if test.smallest * len(tests) > SIGNIFICANT:
        return text, None, evidence + "; there are too few layers to tell"
    return text, test.p * len(tests) <= SIGNIFICANT, evidence


def _ranks(found: Dynamics) -> Claim:
    ranks = found.curves["stable_rank"].mean
    ends = [f"{group} {values[0]:.1f} to {values[-1]:.1f}" for group, values in ranks.items()]
    held = all(values[-1] < values[0] for values in ranks.values())
    return "the rank of updates falls along depth, to about six", held, "stable rank: " + ", ".join(ends)


def _together(found: Dynamics) -> Claim:
    curve = found.curves["coherence"].mean["patch"]
    trend, floor = _trend(curve), found.coherence_floor["patch"]
    evidence = (
        f"coherence {curve[0]:.3f} at the first step, {curve[-1]:.3f} at the last (chance {floor:.3f}); rank "
        f"correlation with depth {trend:.2f}"
    )
    return "patches move together ever more", trend > 0 and curve[-1] > curve[0], evidence


def _disc(found: Dynamics) -> Claim:
    radii = {group: modes.spectral_radius for group, modes in found.modes.items()}
    walks = _listed(((group, walk.spectral_radius) for group, walk in found.walks.items()), ".4f")
    evidence = f"spectral radius: {_listed(radii.items(), '.4f')} (a walk without memory: {walks})"
    return "eigenvalues of depth as one linear map lie in the unit disc", max(radii.values()) <= 1, evidence


def _memory(found: Dynamics) -> Claim:
    medians = {group: modes.median_modulus for group, modes in found.modes.items()}
    order = [medians[group] for group in ("cls", "register", "patch") if group in medians]
    held = order == sorted(order, reverse=True) if len(order) > 1 else None
    evidence = "median modulus: " + _listed(medians.items())
    return "cls has the longest memory, then registers, then patches", held, evidence


def _basins(found: Dynamics) -> Claim:
    text = "images of a class end in a basin of their own"
    group = "cls" if "cls" in found.modes else "patch"
    if not found.basins:
        return text, None, "there are no classes"
    basins = found.basins[group]
    evidence = (
        f"{group}, layer 0 to the last: angle to its own class {basins.within[0]:.3f} to {basins.within[-1]:.3f}, to "
        f"others {basins.between[0]:.3f} to {basins.between[-1]:.3f}; nearest to its own {basins.nearest[0]:.1%} to "
        f"{basins.nearest[-1]:.1%}"
    )
    held = basins.high["within"][-1] < basins.low["between"][-1] and basins.low["nearest"][-1] > basins.nearest[0]
    return text, held, evidence
