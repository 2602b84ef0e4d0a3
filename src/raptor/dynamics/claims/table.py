"""The table of the paper's claims about depth as a dynamical system."""

from __future__ import annotations

from raptor.dynamics.claims import convergence, perturbed, spectra, speeds, updates  # noqa: F401 (register their rules)
from raptor.dynamics.claims.claim import RULES, Claim, judge
from raptor.dynamics.claims.evidence import Evidence

ORDER = (
    "norms", "s-shape", "order", "basins", "self-correction", "late-cls", "registers", "phases", "sensitivity", "rank",
    "coherence", "disc", "memory", "spectra",
)  # fmt: skip


def claims_of(evidence: Evidence) -> list[Claim]:
    """Return the paper's claims in its order, judged for one model.

    Parameters
    ----------
    evidence
        What was measured of the model.
    """
    names = [*(name for name in ORDER if name in RULES), *(name for name in RULES if name not in ORDER)]
    return judge({name: RULES[name].find(evidence) for name in names})
