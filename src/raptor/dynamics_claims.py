"""What the paper says of depth as a dynamical system, and whether a model bears it out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.perturbation import SHOWN
from raptor.dynamics.ranking import rank_correlation
from raptor.dynamics.survey import GIVEN, Dynamics

SIGNIFICANT = 0.05
SLACK = 1e-3  # moduli that differ by less count as the same


def claims(found: Dynamics) -> list[dict[str, Any]]:
    """Return claims, each with whether it holds here (None: cannot be told) and the numbers that say so."""
    parts = (_order(found), _corrects(found), _decays(found), _boundaries(found), _ranks(found), _together(found),
             _disc(found), _memory(found), _basins(found))  # fmt: skip
    return [{"text": text, "held": held, "evidence": evidence} for text, held, evidence in parts]


Claim = tuple[str, bool | None, str]


def _listed(values: Iterable[tuple[str, float]], form: str = ".3f") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values)


def _ordered(values: list[float], slack: float = 0.0) -> bool | None:
    """Return whether numbers rise; None where some are the same, or there is but one."""
    steps = [after - before for before, after in itertools.pairwise(values)]
    if any(step < -slack for step in steps):
        return False
    return True if steps and all(step > slack for step in steps) else None


def _order(found: Dynamics) -> Claim:
    layers = {group: float(layer) for group, (layer, _) in found.settled.items()}
    held = _ordered([layers[group] for group in ("register", "patch", "cls") if group in layers])
    evidence = "first layer with gamma above 0.9: " + _listed(layers.items(), ".0f")
    return "directions settle in the order registers, patches, cls", held, evidence


def _corrects(found: Dynamics) -> Claim:
    slopes = {group: found.pushed.slope((group, group), 0, SHOWN) for group in found.modes}
    ends = [f"{group} {value:.3f} [{low:.3f}, {high:.3f}]" for group, (value, (low, high)) in slopes.items()]
    known = all(math.isfinite(high) for _, (_, high) in slopes.values())
    held = all(high < 0 for _, (_, high) in slopes.values()) if known else None
    evidence = f"slope of the log angle a layer after a push of {SHOWN} at layer 0: {', '.join(ends)}"
    return "pushed trajectories bend back", held, evidence


def _decays(found: Dynamics) -> Claim:
    at = found.pushed.epsilons.index(SHOWN)
    ends = {group: found.pushed.sensitivity((group, group))["over_square"][:, at].tolist() for group in found.modes}
    rank = {group: _trend(values) for group, values in ends.items()}
    text = "the end is less sensitive to later pushes of patches, and more to late ones of cls"
    evidence = "rank correlation of sensitivity with the layer of the push: " + _listed(rank.items(), ".2f")
    if "cls" not in ends:
        return text, None, evidence
    held, chance, late = later_pushes(ends["patch"], ends["cls"])
    evidence += f" (patch: p = {chance:.3f}); cls, of the last layer over the middle one: {late:.2f}"
    return text, held, evidence


def later_pushes(patch: Sequence[float], cls: Sequence[float]) -> tuple[bool | None, float, float]:
    """Judge sensitivities by layer: whether those of patches fall by more than chance while that of cls is late.

    Return that (None: chance may give it), the p-value, and the last of cls over the middle one.
    """
    trend, chance = rank_correlation(range(len(patch)), patch)
    middle = cls[len(cls) // 2]
    late = cls[-1] / middle if middle else math.nan  # no trace of a push is left
    held = None if math.isnan(late) else False if late <= 1 else trend < 0 if chance <= SIGNIFICANT else None
    return held, chance, late


def _trend(values: list[float]) -> float:
    return rank_correlation(range(len(values)), values)[0]


def _boundaries(found: Dynamics) -> Claim:
    """Judge cls at the cuts of patches and patches at those of cls, or both at cuts that were given; no more."""
    text, wanted = "tokens are faster where phases meet", (("cls", "patch"), ("patch", "cls"))
    tests = {
        group: test
        for group, source in wanted
        if (test := found.boundaries.get(group, {}).get(GIVEN) or found.boundaries.get(group, {}).get(source))
    }
    if not tests:
        return text, None, "there is one phase, or no other token group to take cuts from"
    said = [
        f"{group} {test.at_boundaries:.3f} there, {test.elsewhere:.3f} elsewhere (p = {test.p:.3f}, at least "
        f"{test.smallest:.3f})"
        for group, test in tests.items()
    ]
    evidence = "mean speed of " + "; ".join(said)
    if max(test.smallest for test in tests.values()) * len(tests) > SIGNIFICANT:
        return text, None, evidence + "; there are too few layers to tell"
    return text, all(test.p * len(tests) <= SIGNIFICANT for test in tests.values()), evidence


def _change(curve: ByLayer, group: str) -> int:
    """Return 1 where the last value is surely above the first, -1 where it is below, 0 where intervals meet."""
    low, high = curve.low[group], curve.high[group]
    return int(low[-1] > high[0]) - int(high[-1] < low[0])


def _ranks(found: Dynamics) -> Claim:
    curve = found.curves["stable_rank"]
    ends = [f"{group} {values[0]:.1f} to {values[-1]:.1f}" for group, values in curve.mean.items()]
    changes = {_change(curve, group) for group in curve.mean}
    held = True if changes == {-1} else False if 1 in changes else None
    evidence = f"stable rank: {', '.join(ends)} (the paper: to about 6)"
    return "the rank of updates falls along depth", held, evidence


def _together(found: Dynamics) -> Claim:
    text, values = "patches move together ever more", found.curves["coherence"]
    if "patch" not in values.mean:
        return text, None, "there is one patch alone"
    curve, floor = values.mean["patch"], found.coherence_floor["patch"]
    trend, change = _trend(curve), _change(values, "patch")
    evidence = (
        f"coherence {curve[0]:.3f} at the first step, {curve[-1]:.3f} at the last (chance {floor:.3f}); rank "
        f"correlation with depth {trend:.2f}"
    )
    held = None if not change or math.isnan(trend) else change > 0 and trend > 0
    return text, held, evidence


def _disc(found: Dynamics) -> Claim:
    radii = {group: modes.spectral_radius for group, modes in found.modes.items()}
    walks = _listed(((group, walk.spectral_radius) for group, walk in found.walks.items()), ".4f")
    evidence = f"spectral radius: {_listed(radii.items(), '.4f')} (a walk without memory: {walks})"
    return "eigenvalues of depth as one linear map lie in the unit disc", max(radii.values()) <= 1 + SLACK, evidence


def _memory(found: Dynamics) -> Claim:
    medians = {group: modes.median_modulus for group, modes in found.modes.items()}
    held = _ordered([medians[group] for group in ("patch", "register", "cls") if group in medians], SLACK)
    evidence = "median modulus: " + _listed(medians.items())
    return "cls has the longest memory, then registers, then patches", held, evidence


def _basins(found: Dynamics) -> Claim:
    text = "images of a class end in a basin of their own"
    group = "cls" if "cls" in found.modes else "patch"
    if not found.basins or math.isnan(found.basins[group].between[-1]):
        return text, None, "there are no classes to tell apart"
    basins = found.basins[group]
    evidence = (
        f"{group}, layer 0 to the last: angle to its own class {basins.within[0]:.3f} to {basins.within[-1]:.3f}, to "
        f"others {basins.between[0]:.3f} to {basins.between[-1]:.3f}; nearest to its own {basins.nearest[0]:.1%} to "
        f"{basins.nearest[-1]:.1%}"
    )
    held = basins.high["within"][-1] < basins.low["between"][-1] and basins.low["nearest"][-1] > basins.nearest[0]
    return text, held, evidence
