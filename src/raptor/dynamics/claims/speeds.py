"""Claims on angular speed."""

from __future__ import annotations

import math

import torch

from raptor.dynamics.claims.claim import Finding, rule
from raptor.dynamics.claims.evidence import Evidence, above_share, bootstrapped, cannot, listed
from raptor.dynamics.claims.statistics import Curves, Number, later_is_larger, log_ratio, smallest

LARGER = 0.18  # log of 1.2
SMALLER = 0.1  # log of 1.1


def late_speed(speed: torch.Tensor) -> Number:
    """Return the log ratio of the mean speed over the last third of the steps to that over the steps before, from 1."""
    late = speed.shape[-1] // 3
    if not late or speed.shape[-1] - late < 2:
        return speed.new_full(speed.shape[:-1], torch.nan)
    return (speed[..., -late:].mean(dim=-1) / speed[..., 1:-late].mean(dim=-1)).log()


@rule(
    "late-cls", "cls changes direction most in the last layers", figure="speed", smallest_effect=LARGER,
    null="the same speeds in any order of the steps",
    statistic="log ratio of the mean speed of cls over the last third of the steps to that over the steps before, "
    "without the first",
)  # fmt: skip
def late_cls(evidence: Evidence) -> Finding:
    """Compare the speed of cls in the last third with that before."""
    if "cls" not in evidence.speed:
        return cannot("the model has no cls token")
    value, draws = (curves["cls"] for curves in evidence.curves(evidence.speed, steps=True))
    effect = bootstrapped(late_speed(value), late_speed(draws), evidence.n)
    if effect is None:
        return cannot(f"{len(value)} layers are too few to compare thirds of depth")
    late = len(value) // 3
    test = later_is_larger(value[1:], len(value) - 1 - late, late, log_ratio)
    text = (
        f"mean speed of cls: {float(value[-late:].mean()):.3f} radians per step over the last {late} steps, "
        f"{float(value[1:-late].mean()):.3f} over the earlier ones (without the first)"
    )
    return Finding.permuted(text, effect, test)


def _quieter(speed: Curves, squares: Curves, first: int) -> Number:
    """Return the least log ratio of speed, and of its standard deviation, of another group to registers."""
    return smallest(
        [
            (measure[group] / measure["register"]).log()
            for measure in _mean_and_spread(speed, squares, first)
            for group in measure
            if group != "register"
        ]
    )


def _mean_and_spread(speed: Curves, squares: Curves, first: int) -> tuple[dict[str, Number], dict[str, Number]]:
    """Return the mean of speed over the steps from `first` on, and its standard deviation over tokens and images."""
    variance = {group: (squares[group] - speed[group].square()).clamp(min=1e-24) for group in speed}
    return (
        {group: curve[..., first:].mean(dim=-1) for group, curve in speed.items()},
        {group: curve[..., first:].mean(dim=-1).sqrt() for group, curve in variance.items()},
    )


@rule(
    "registers", "registers turn more slowly and more evenly than other tokens", figure="speed",
    smallest_effect=SMALLER,
    null="updates of the same size for all token groups: then tokens with larger norms are slower",
    statistic="log ratio of the speed, and of its standard deviation, of cls or patches to that of registers, "
    "whichever is smallest, without the first third of the steps",
)  # fmt: skip
def registers(evidence: Evidence) -> Finding:
    """Compare the speed of registers with that of other groups, and with what equal updates would give."""
    if "register" not in evidence.speed or len(evidence.speed) < 2:
        return cannot("the model has no registers" if len(evidence.speed) > 1 else "the model has a single token group")
    (speed, speeds), (squares, many_squares) = (
        evidence.curves(means, steps=True) for means in (evidence.speed, evidence.speed_squares)
    )
    first = len(speed["register"]) // 3
    effect, draws = _quieter(speed, squares, first), _quieter(speeds, many_squares, first)
    norms, many_norms = evidence.curves(evidence.norms)
    # Speed is close to the size of the update over the norm, so equal updates leave the ratio of the norms.
    expected, many_expected = (
        smallest(
            [
                (curves["register"][..., first:-1].mean(-1) / curves[group][..., first:-1].mean(-1)).log()
                for group in curves
                if group != "register"
            ]
        )
        for curves in (norms, many_norms)
    )
    # Beyond the null by at least the smallest effect of interest: equal updates are never exactly equal.
    p, least = above_share(draws - many_expected, SMALLER)
    means, spreads = (
        {group: float(one) for group, one in part.items()} for part in _mean_and_spread(speed, squares, first)
    )
    text = (
        f"mean speed in radians, after the first third of the steps: {listed(means.items())}; its standard deviation "
        f"over tokens and images: {listed(spreads.items())}. Both must be at least {1 - math.exp(-SMALLER):.0%} lower "
        "for registers"
    )
    return Finding(text, bootstrapped(effect, draws, evidence.n), float(expected), p, least)


@rule(
    "phases", "speed is constant within phases and changes at their boundaries", figure="speed", smallest_effect=0.2,
    null="all placements of as many boundaries with the same minimum length, and trajectories with the same updates in "
    "random directions, whose boundaries are found in the same way",
    statistic="share of the variance of speed over steps that is not within phases, minus its mean over all placements",
)  # fmt: skip
def steady(evidence: Evidence) -> Finding:
    """Compare the variance that phases explain with that of other placements of the boundaries."""
    found, draws = evidence.stationarity, evidence.stationarity_draws
    if found is None or draws is None:
        return cannot("there is one phase, or no other token group to take boundaries from")
    value = torch.tensor(found.explained - found.expected, dtype=torch.float64)
    source = (
        "to avoid circularity, cls is tested with the phases of patches, and patches with those of cls"
        if found.guarded
        else "the phases may come from the same tokens, which makes the test circular"
    )
    text = (
        f"phases explain {found.explained:.0%} of the variance of speed over steps; other partitions into as many "
        f"phases explain {found.expected:.0%} on average"
    )
    effect = bootstrapped(value, draws - found.expected, evidence.n)
    if not found.guarded or evidence.rotation_measured["phases"].isnan().any():
        return Finding(f"{text}; {source}", effect, 0.0, None, None, found.upper - found.expected)
    # Beyond both nulls: the larger p-value counts.
    drift, p, least = evidence.rotation_p("phases")
    upper = max(found.upper, float(evidence.rotation_draws["phases"].quantile(0.95)))
    text += f"; for updates in random directions, phases explain {drift:.0%}; {source}"
    return Finding(text, effect, 0.0, max(p, found.p), max(least, found.smallest), upper - found.expected)
