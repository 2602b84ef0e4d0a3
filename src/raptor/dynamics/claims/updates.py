"""Claims on updates: their rank, and how coherent they are."""

from __future__ import annotations

from raptor.dynamics.claims.claim import Finding, rule
from raptor.dynamics.claims.evidence import Evidence, above_share, bootstrapped, cannot, jackknifed
from raptor.dynamics.claims.statistics import later_is_larger, log_ratio, thirds

ANY_ORDER = "the same values in any order of the steps"
LOWER = 0.22  # log of 1.25
MORE_COHERENT = 0.05


@rule(
    "rank", "the rank of updates falls with depth", figure="ranks", smallest_effect=LOWER, null=ANY_ORDER,
    statistic="log ratio of the centred stable rank of patch updates over the first third of the steps to that over "
    "the last third",
)  # fmt: skip
def rank_falls(evidence: Evidence) -> Finding:
    """Compare the rank of updates early and late."""
    steps = evidence.last["patch"]
    curves = evidence.ranks.found["patch"]
    value = curves["centred_stable_rank"][:steps]
    if steps < 3:
        return cannot(f"{steps} steps are too few to compare thirds of depth")
    first, _, last = thirds(value)
    without = (thirds(one[:steps]) for one in evidence.ranks.without["patch"]["centred_stable_rank"])
    effect = jackknifed((first / last).log(), ((one / other).log() for one, _, other in without), evidence.n)
    test = later_is_larger(value.flip(0), steps // 3, steps // 3, log_ratio)
    plain = thirds(curves["stable_rank"][:steps])
    text = (
        f"mean centred stable rank of patch updates: {float(first):.2f} in the first third of the steps, "
        f"{float(last):.2f} in the last third (not centred: {float(plain[0]):.2f} and {float(plain[2]):.2f})"
    )
    return Finding.permuted(text, effect, test)


@rule(
    "coherence", "the updates of patches become more coherent with depth", figure="coherence",
    smallest_effect=MORE_COHERENT,
    null="the rise of the same measure for states: tokens that become alike get updates that are alike",
    statistic="mean coherence of patches over the last third of the steps minus that over the first third",
)  # fmt: skip
def coherence_rises(evidence: Evidence) -> Finding:
    """Compare the rise of coherence with that of the states before each step."""
    if "patch" not in evidence.coherence:
        return cannot("there is only one patch")
    value, draws = (curves["patch"] for curves in evidence.curves(evidence.coherence, steps=True))
    alike, many_alike = (curves["patch"] for curves in evidence.curves(evidence.state_coherence, steps=True))
    if len(value) < 3:
        return cannot(f"{len(value)} steps are too few to compare thirds of depth")
    effect, drawn, expected, many_expected = (
        late - early for early, _, late in map(thirds, (value, draws, alike, many_alike))
    )
    # Beyond the null by at least the smallest effect of interest: random layers change coherence a little, too.
    p, least = above_share(drawn - many_expected, MORE_COHERENT)
    early, _, late = thirds(value)
    text = (
        f"mean coherence of patches: {float(early):.3f} in the first third of the steps, {float(late):.3f} in the last "
        f"third; independent updates have {evidence.coherence_floor['patch']:.3f}"
    )
    return Finding(text, bootstrapped(effect, drawn, evidence.n), float(expected), p, least)
