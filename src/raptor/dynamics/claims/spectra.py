"""Claims on the linear map of all layers (DMD)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.dynamics.claims.claim import Finding, rule
from raptor.dynamics.claims.evidence import Evidence, jackknifed, listed
from raptor.dynamics.claims.rotation import Paths
from raptor.dynamics.claims.statistics import BY_MEMORY, Number, order, smallest, spectral_rank
from raptor.dynamics.dmd.pooled import RANK, Modes

NEGLIGIBLE = 1e-10  # squared singular values below this share of the largest count as zero
SLACK = 1e-3  # outside the unit disc by less counts as inside
NEAR = torch.pi / 8  # angle to the positive real axis up to which an eigenvalue counts as near it
ROTATED = "a map that is fitted to the same updates, those of each layer turned by a random rotation of their own"

# Eigenvalues of a map and singular values of the states, by token group, each with any number of axes before.
Spectra = Mapping[str, tuple[Complex[Tensor, "... _"], Float[Tensor, "... _"]]]


def spectra_of(modes: Mapping[str, Modes]) -> Spectra:
    """Return the spectra of fitted maps."""
    return {group: (own.eigenvalues, own.singular) for group, own in modes.items()}


def fitted(means: Paths) -> Spectra:
    """Fit a map to the unit means of each group and draw, from products between states, and return its spectra."""
    found = {}
    for group, states in means.items():
        unit = normalize(states[..., 0, :], dim=-1)
        before, after = unit[:, :, :-1].flatten(1, 2), unit[:, :, 1:].flatten(1, 2)
        squares, vectors = torch.linalg.eigh(before @ before.mT)
        squares, vectors = squares.flip(-1).clamp(min=0), vectors.flip(-1)
        kept = int(min(RANK, (squares > squares[:, :1] * NEGLIGIBLE).sum(dim=-1).min()))
        scaled = vectors[..., :kept] / squares[:, None, :kept].sqrt()
        operator = scaled.mT @ (before @ after.mT) @ scaled
        found[group] = (torch.linalg.eigvals(operator), squares.sqrt())
    return found


def inside(spectra: Spectra) -> Number:
    """Return the share of eigenvalues in the unit disc and near the positive real axis, in the group with fewest."""
    return smallest(
        [
            ((values.abs() <= 1 + SLACK) & (values.angle().abs() <= NEAR)).double().mean(dim=-1)
            for values, _ in spectra.values()
        ]
    )


def memory(spectra: Spectra) -> Number:
    """Return the smallest difference between median moduli of cls, registers and patches, in this order."""
    return order({group: values.abs().quantile(0.5, dim=-1) for group, (values, _) in spectra.items()}, BY_MEMORY)


def decay(spectra: Spectra) -> Number:
    """Return the smallest log ratio between the spectral ranks of cls, registers and patches, in this order."""
    return order({group: spectral_rank(singular).log() for group, (_, singular) in spectra.items()}, BY_MEMORY)


STATISTICS = {"disc": inside, "memory": memory, "spectra": decay}


def spectral_statistics(means: Paths) -> dict[str, Number]:
    """Return the statistics of all claims of this module for trajectories of group means."""
    found = fitted(means)
    return {name: statistic(found) for name, statistic in STATISTICS.items()}


def _finding(evidence: Evidence, name: str, text: str) -> Finding:
    statistic = STATISTICS[name]
    null, p, least = evidence.rotation_p(name)
    others = (statistic(spectra_of(modes)) for modes in evidence.modes_without)
    effect = jackknifed(statistic(spectra_of(evidence.modes)), others, evidence.n)
    return Finding(text, effect, null, p, least)


@rule(
    "disc", "the eigenvalues of the DMD map lie in the unit disc, near +1", figure="dmd",
    smallest_effect=0.9, null=ROTATED,
    statistic="share of eigenvalues in the unit disc and within pi/8 of the positive real axis, in the group with "
    "fewest",
)  # fmt: skip
def disc(evidence: Evidence) -> Finding:
    """Count eigenvalues in the disc and near the positive real axis."""
    radii = {group: modes.spectral_radius for group, modes in evidence.modes.items()}
    shares = {group: float(inside({group: own})) for group, own in spectra_of(evidence.modes).items()}
    text = (
        "share of eigenvalues in the unit disc and at most pi/8 from the positive real axis: "
        f"{listed(shares.items(), '.0%')}; largest modulus: {listed(radii.items())}"
    )
    return _finding(evidence, "disc", text)


@rule(
    "memory", "DMD modes decay slowest for cls, then registers, then patches", figure="dmd", smallest_effect=0.01,
    null=ROTATED, statistic="smallest difference between the median moduli of DMD eigenvalues of groups that follow "
    "each other",
)  # fmt: skip
def longest(evidence: Evidence) -> Finding:
    """Compare median moduli between groups."""
    medians = {group: modes.median_modulus for group, modes in evidence.modes.items()}
    return _finding(evidence, "memory", f"median modulus of the DMD eigenvalues: {listed(medians.items())}")


@rule(
    "spectra", "the singular values of the tokens decay slowest for cls, then registers, then patches",
    figure="dmd", smallest_effect=0.1, null=ROTATED,
    statistic="smallest log ratio between the entropy ranks of the singular values of groups that follow each other",
)  # fmt: skip
def slowest(evidence: Evidence) -> Finding:
    """Compare effective ranks of the states over depth between groups."""
    ranks = {group: float(spectral_rank(modes.singular)) for group, modes in evidence.modes.items()}
    return _finding(
        evidence, "spectra", f"entropy rank of the tokens of all layers and images: {listed(ranks.items(), '.2f')}"
    )
