"""A claim of the paper: its rule, what was found, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raptor.core.estimate import Estimate
from raptor.core.serialize import key
from raptor.dynamics.claims.statistics import Permuted

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, judged by a rule that was fixed before the measurement.

    Parameters
    ----------
    text
        The claim.
    held
        Whether it holds: true if the whole interval of the effect is at least the smallest effect of interest, false if
        the whole interval is below it, and None (inconclusive) otherwise.
    evidence
        What was measured, in a sentence.
    name
        Short name.
    effect
        Effect size, with its 95% interval over images.
    smallest_effect
        The smallest effect of interest.
    statistic, null_model
        What the effect is, and what it is compared with.
    null, null_upper
        Mean effect under the null, and its 95th percentile; None where there is none.
    p, p_adjusted, smallest_p
        P-value of an effect as large under the null; the same after Holm's correction over the table; and the smallest
        value that the test can give. None where there is no test.
    beyond_null
        Whether a claim that holds goes beyond its null: the adjusted p-value is at most 0.05. Where the test cannot
        give such a value, whether the interval is above the 95th percentile of the null. None for claims that do not
        hold.
    figure
        Name of the figure that shows it.
    """

    text: str
    held: bool | None
    evidence: str
    name: str = ""
    effect: Estimate[float] | None = key(None, ci="ci")
    smallest_effect: float = math.nan
    statistic: str = ""
    null_model: str = ""
    null: float | None = None
    null_upper: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    smallest_p: float | None = None
    beyond_null: bool | None = None
    figure: str | None = None


@dataclass(frozen=True)
class Finding:
    """What a rule found: an effect with its interval, and what the null gives.

    Parameters
    ----------
    evidence
        What was measured, in a sentence.
    effect
        Effect size with its interval; None where the claim cannot be tested.
    null, p, smallest_p, null_upper
        As in `Claim`.
    """

    evidence: str
    effect: Estimate[float] | None = None
    null: float | None = None
    p: float | None = None
    smallest_p: float | None = None
    null_upper: float | None = None

    @classmethod
    def permuted(cls, evidence: str, effect: Estimate[float] | None, test: Permuted | None) -> Finding:
        """Return a finding with a permutation test of steps; without one where there are too few steps."""
        if test is None:
            return cls(evidence, effect, 0.0)
        return cls(evidence, effect, 0.0, test.p, test.smallest, test.upper)


@dataclass(frozen=True)
class Rule:
    """How a claim is judged.

    Parameters
    ----------
    name, text, figure, statistic, smallest_effect, null_model
        As in `Claim`.
    find
        Computes the effect from what was measured.
    """

    name: str
    text: str
    figure: str
    statistic: str
    smallest_effect: float
    null_model: str
    find: Callable[[Any], Finding]


RULES: dict[str, Rule] = {}


def rule(
    name: str, text: str, *, figure: str, statistic: str, smallest_effect: float, null: str
) -> Callable[[Callable[[Any], Finding]], Callable[[Any], Finding]]:
    """Register a function from `Evidence` to `Finding` as the rule of a claim.

    Parameters
    ----------
    name, text, figure, statistic, smallest_effect
        As in `Claim`.
    null
        What the effect is compared with.
    """

    def register(find: Callable[[Any], Finding]) -> Callable[[Any], Finding]:
        RULES[name] = Rule(name, text, figure, statistic, smallest_effect, null, find)
        return find

    return register


def judge(findings: dict[str, Finding]) -> list[Claim]:
    """Return the claims with their verdicts, p-values corrected over all of them.

    Parameters
    ----------
    findings
        What each rule found, by name.
    """
    claims = [_claim(RULES[name], found) for name, found in findings.items()]
    tested = [i for i, claim in enumerate(claims) if claim.p is not None]
    adjusted = holm([claims[i].p for i in tested])  # type: ignore[misc]
    for i, p in zip(tested, adjusted, strict=True):
        claims[i] = replace(claims[i], p_adjusted=p)
    return [replace(claim, beyond_null=_beyond(claim, len(tested))) for claim in claims]


def _claim(rule: Rule, found: Finding) -> Claim:
    held = None
    if found.effect is not None and found.effect.low >= rule.smallest_effect:
        held = True
    elif found.effect is not None and found.effect.high < rule.smallest_effect:
        held = False
    return Claim(
        text=rule.text,
        held=held,
        evidence=found.evidence,
        name=rule.name,
        effect=found.effect,
        smallest_effect=rule.smallest_effect,
        statistic=rule.statistic,
        null_model=rule.null_model,
        null=found.null,
        null_upper=found.null if found.null_upper is None else found.null_upper,
        p=None if found.effect is None else found.p,
        smallest_p=None if found.effect is None else found.smallest_p,
        figure=rule.figure,
    )


def _beyond(claim: Claim, tests: int) -> bool | None:
    if not claim.held or claim.effect is None:
        return None
    if claim.p_adjusted is not None and (claim.smallest_p or 0.0) * tests <= SIGNIFICANT:
        return claim.p_adjusted <= SIGNIFICANT
    return None if claim.null_upper is None else claim.effect.low > claim.null_upper


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values after Holm's step-down correction."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = highest
    return adjusted
