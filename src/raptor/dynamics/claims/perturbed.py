"""Claims on perturbations, judged against a perturbation that is carried along unchanged."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.dynamics.claims.claim import Finding, rule
from raptor.dynamics.claims.evidence import Evidence, above_share, bootstrapped, cannot, listed
from raptor.dynamics.claims.statistics import Number, smallest, thirds
from raptor.dynamics.perturbations.sensitivity import SHOWN

CARRIED = "a perturbation that every layer leaves unchanged: its angle shrinks as the norm of the state grows"
Ratios = Float[Tensor, "... _"]


def _log_ratios(evidence: Evidence, group: str) -> tuple[Ratios, Ratios]:
    """Return the log of the final angle over the passive one for perturbations at the layers 1 and later, and draws."""
    value, draws = evidence.perturbed.final_ratio(group)
    size = evidence.perturbed.epsilons.index(SHOWN)
    kept = [i for i, layer in enumerate(evidence.perturbed.layers) if 1 <= layer < evidence.last[group]]
    return value[kept, size].log(), draws[:, kept, size].log()


def corrected(ratios: dict[str, Ratios]) -> Number:
    """Return minus the mean log ratio of the group that corrects least."""
    return smallest([-values.mean(dim=-1) for values in ratios.values()])


@rule(
    "self-correction", "layers correct perturbations", figure="correction", smallest_effect=0.05, null=CARRIED,
    statistic="minus the mean log ratio of the final angle to that of an unchanged perturbation, over perturbations at "
    "layer 1 and later, in the group where it is smallest",
)  # fmt: skip
def bends_back(evidence: Evidence) -> Finding:
    """Compare final angles with those of carried perturbations."""
    found = {group: _log_ratios(evidence, group) for group in evidence.norms}
    if min(len(value) for value, _ in found.values()) < 1:
        return cannot("no layer but layer 0 was perturbed")
    value, draws = ({group: pair[i] for group, pair in found.items()} for i in range(2))
    ratios = {group: float(values.mean().exp()) for group, values in value.items()}
    effect, drawn = corrected(value), corrected(draws)
    p, least = above_share(drawn, 0.0)
    text = (
        f"angle at the last layer after a perturbation of {SHOWN:.0%}, divided by the angle if every layer passed the "
        "perturbation on unchanged (below 1: corrected; geometric mean over perturbations at layer 1 and later): "
        f"{listed(ratios.items(), '.2f')}"
    )
    return Finding(text, bootstrapped(effect, drawn, evidence.perturbed.n), 0.0, p, least)


def sensitivity_pattern(patch: Ratios, cls: Ratios) -> Number:
    """Return the smaller of two changes of log sensitivity: the fall of patches over depth, the late rise of cls."""
    at = torch.arange(patch.shape[-1], dtype=patch.dtype)
    at = at - at.mean()
    fall = -(patch * at).sum(dim=-1) / at.square().sum() * (len(at) - 1)
    _, middle, late = thirds(cls)
    return smallest([fall, late - middle])


@rule(
    "sensitivity", "later perturbations change patches less and cls more",
    figure="sensitivity", smallest_effect=0.1, null=CARRIED,
    statistic="smaller of two changes of the log ratio of the final angle to that of an unchanged perturbation: its "
    "fall over depth for patches (line by least squares), its rise from the middle to the last third for cls",
)  # fmt: skip
def later(evidence: Evidence) -> Finding:
    """Compare trends of sensitivity over the perturbed layer."""
    if "cls" not in evidence.norms:
        return cannot("the model has no cls token")
    (patch, patches), (cls, many_cls) = (_log_ratios(evidence, group) for group in ("patch", "cls"))
    if min(len(patch), len(cls)) < 3:
        return cannot("fewer than three layers were perturbed, not counting layer 0")
    effect, draws = sensitivity_pattern(patch, cls), sensitivity_pattern(patches, many_cls)
    p, least = above_share(draws, 0.0)
    _, middle, late = thirds(cls)
    text = (
        "angle at the last layer, divided by the angle if every layer passed the perturbation on unchanged: patches "
        f"{float(patch[0].exp()):.2f} if the first layer is perturbed and {float(patch[-1].exp()):.2f} if the last one "
        f"is; cls {float(middle.exp()):.2f} for the middle third of the layers and {float(late.exp()):.2f} for the "
        "last third"
    )
    return Finding(text, bootstrapped(effect, draws, evidence.perturbed.n), 0.0, p, least)
