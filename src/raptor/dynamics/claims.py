"""The paper's claims about depth as a dynamical system, and whether a model supports them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from raptor.core.correlation import rank_correlation
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.dynamics.result import Claim, ModelDynamics
from raptor.dynamics.sensitivity import SHOWN

SIGNIFICANT = 0.05
SLACK = 1e-3  # moduli that differ by less count as equal
GIVEN = "given"  # source of boundaries that the user chose


def claims_of(model: ModelDynamics) -> list[Claim]:
    """Return the paper's claims with what a model says about each.

    Parameters
    ----------
    model
        What `measure_dynamics` measured.
    """
    checks = (_order, _corrects, _decays, _boundaries, _ranks, _coherence, _disc, _memory, _basins)
    return [check(model) for check in checks]


def _listed(values: Iterable[tuple[str, float]], form: str = ".3f") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values)


def _ordered(values: list[float], slack: float = 0.0) -> bool | None:
    """Return whether numbers increase; None where some are equal, or there is only one."""
    steps = [after - before for before, after in itertools.pairwise(values)]
    if any(step < -slack for step in steps):
        return False
    return True if steps and all(step > slack for step in steps) else None


def _order(model: ModelDynamics) -> Claim:
    layers = {group: float(layer.value) for group, layer in model.converged_layer.items()}
    held = _ordered([layers[group] for group in ("register", "patch", "cls") if group in layers])
    evidence = "first layer at which the cosine with the last layer exceeds 0.9: " + _listed(layers.items(), ".0f")
    return Claim("directions converge in the order registers, patches, cls", held, evidence)


def _corrects(model: ModelDynamics) -> Claim:
    row, column = model.correction.layers.index(0), model.correction.epsilons.index(SHOWN)
    slopes = {group: _cell(one.slope, row, column) for group, one in model.correction.by_group.items()}
    listed = [f"{group} {one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for group, one in slopes.items()]
    known = all(math.isfinite(one.high) for one in slopes.values())
    held = all(one.high < 0 for one in slopes.values()) if known else None
    evidence = (
        f"every token of layer 0 was perturbed by {SHOWN:.0%} of its norm. From one layer to the next, the log of the "
        f"angle between the perturbed and the unperturbed trajectory changes on average by: {', '.join(listed)}. A "
        "negative value means that the perturbed trajectory returns to the unperturbed one"
    )
    return Claim("perturbed trajectories return", held, evidence)


def _cell(table: Estimate[list[list[float]]], row: int, column: int) -> Estimate[float]:
    return Estimate(table.value[row][column], table.low[row][column], table.high[row][column], table.n)


def _decays(model: ModelDynamics) -> Claim:
    ends = {group: model.sensitivity.shown(group) for group in model.dmd}
    rank = {group: _trend(values) for group, values in ends.items()}
    text = "the later a perturbation, the less it changes patches and the more it changes cls"
    evidence = "rank correlation between the perturbed layer and the change of the output: " + _listed(
        rank.items(), ".2f"
    )
    if "cls" not in ends:
        return Claim(text, None, evidence)
    held, p, late = later_perturbations(ends["patch"], ends["cls"])
    evidence += (
        f" (p = {p:.3f} for patch); a perturbation of the last layer changes cls {late:.2f} times as much as a "
        "perturbation of the middle layer does"
    )
    return Claim(text, held, evidence)


def later_perturbations(patch: Sequence[float], cls: Sequence[float]) -> tuple[bool | None, float, float]:
    """Test whether patches get less sensitive with depth while cls is most sensitive late.

    Return whether that holds (None: not significant), the p-value, and the last value of cls over the middle one.

    Parameters
    ----------
    patch, cls
        Sensitivity of each group to its own perturbations, by perturbed layer.
    """
    trend, p = rank_correlation(range(len(patch)), patch)
    middle = cls[len(cls) // 2]
    late = cls[-1] / middle if middle else math.nan  # perturbations without measurable effect
    held = None if math.isnan(late) else False if late <= 1 else trend < 0 if p <= SIGNIFICANT else None
    return held, p, late


def _trend(values: list[float]) -> float:
    return rank_correlation(range(len(values)), values)[0]


def _boundaries(model: ModelDynamics) -> Claim:
    """Test cls at the boundaries of patches and patches at those of cls, or both at given boundaries; no others."""
    text, wanted = "tokens change direction faster at phase boundaries", (("cls", "patch"), ("patch", "cls"))
    found = model.speed_at_boundaries
    tests = {
        group: test
        for group, source in wanted
        if (test := found.get(group, {}).get(GIVEN) or found.get(group, {}).get(source))
    }
    if not tests:
        return Claim(text, None, "there is one phase, or no other token group to take boundaries from")
    listed = [
        f"{group} {test.at_boundaries:.3f} at boundaries and {test.elsewhere:.3f} elsewhere (p = {test.p:.3f})"
        for group, test in tests.items()
    ]
    least = max(test.smallest for test in tests.values())
    evidence = (
        f"mean angle between consecutive layers, in radians: {', '.join(listed)}. The p-values are from a permutation "
        "test over the positions of the boundaries; "
        f"with {len(model.curves['norm'].mean['patch']) - 1} layers they cannot be below {least:.3f}"
    )
    if least * len(tests) > SIGNIFICANT:
        return Claim(text, None, evidence + "; too few layers for a significant result")
    return Claim(text, all(test.p * len(tests) <= SIGNIFICANT for test in tests.values()), evidence)


def _change(curve: LayerEstimates, group: str) -> int:
    """Return 1 where the last interval is above the first, -1 where it is below, 0 where they overlap."""
    low, high = curve.low[group], curve.high[group]
    return int(low[-1] > high[0]) - int(high[-1] < low[0])


def _ranks(model: ModelDynamics) -> Claim:
    curve = model.curves["stable_rank"]
    ends = [f"{group} {values[0]:.1f} and {values[-1]:.1f}" for group, values in curve.mean.items()]
    changes = {_change(curve, group) for group in curve.mean}
    held = True if changes == {-1} else False if 1 in changes else None
    evidence = (
        "stable rank of the updates at the first and at the last step: "
        f"{', '.join(ends)} (in the paper's larger model, "
        "ranks are higher, and fall to about 6)"
    )
    return Claim("the rank of updates falls along depth", held, evidence)


def _coherence(model: ModelDynamics) -> Claim:
    text, curves = "patches move more and more coherently", model.curves["coherence"]
    if "patch" not in curves.mean:
        return Claim(text, None, "there is only one patch")
    curve, floor = curves.mean["patch"], model.coherence_floor["patch"]
    trend, change = _trend(curve), _change(curves, "patch")
    evidence = (
        f"coherence {curve[0]:.3f} at the first step, {curve[-1]:.3f} at the last (chance level {floor:.3f}); rank "
        f"correlation with depth {trend:.2f}"
    )
    held = None if not change or math.isnan(trend) else change > 0 and trend > 0
    return Claim(text, held, evidence)


def _disc(model: ModelDynamics) -> Claim:
    radii = {group: dmd.spectral_radius for group, dmd in model.dmd.items()}
    null = _listed(((group, dmd.random_walk.spectral_radius) for group, dmd in model.dmd.items()), ".4f")
    evidence = (
        f"the spectral radius is {_listed(radii.items(), '.4f')}. Baseline: a map fitted in the same way to random "
        f"walks has the spectral radius {null}"
    )
    return Claim(
        "if one linear map is fitted to all steps between layers (DMD), its eigenvalues lie in the unit disc",
        max(radii.values()) <= 1 + SLACK,
        evidence,
    )


def _memory(model: ModelDynamics) -> Claim:
    medians = {group: dmd.median_modulus for group, dmd in model.dmd.items()}
    held = _ordered([medians[group] for group in ("patch", "register", "cls") if group in medians], SLACK)
    evidence = "the median modulus of the DMD eigenvalues (the closer to 1, the longer the memory) is " + _listed(
        medians.items()
    )
    return Claim("cls has the longest memory, then registers, then patches", held, evidence)


def _basins(model: ModelDynamics) -> Claim:
    text = "images of one class end near one another and far from other classes"
    group = "cls" if "cls" in model.dmd else "patch"
    if not model.basins or math.isnan(model.basins[group].between.value[-1]):
        return Claim(text, None, "there are no two classes to compare")
    within, between, nearest = (getattr(model.basins[group], name) for name in ("within", "between", "nearest"))
    evidence = (
        f"{group} at the last layer (values at layer 0 in brackets): angle to the mean of the image's own class "
        f"{within.value[-1]:.3f} ({within.value[0]:.3f}), to the means of other classes {between.value[-1]:.3f} "
        f"({between.value[0]:.3f}); share of images whose nearest class mean is that of their own class "
        f"{nearest.value[-1]:.1%} ({nearest.value[0]:.1%})"
    )
    held = within.high[-1] < between.low[-1] and nearest.low[-1] > nearest.value[0]
    return Claim(text, held, evidence)
