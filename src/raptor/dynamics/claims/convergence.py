"""Claims on norms, convergence and basins."""

from __future__ import annotations

import torch

from raptor.dynamics.claims.claim import Finding, rule
from raptor.dynamics.claims.evidence import Evidence, above_share, bootstrapped, cannot, listed
from raptor.dynamics.claims.rotation import Paths
from raptor.dynamics.claims.statistics import Number, convergence_order, curves_of, norm_growth, s_shape

ROTATED = "the same updates, those of each layer turned by a random rotation of their own"


def trajectory_statistics(tokens: Paths) -> dict[str, Number]:
    """Return the statistics of the first three claims of this module for trajectories of tokens."""
    norms, gamma = curves_of(tokens)
    return {"norms": norm_growth(norms), "s-shape": s_shape(gamma), "order": convergence_order(gamma)}


@rule(
    "norms", "norms of tokens grow with depth", figure="norms", smallest_effect=0.5, null=ROTATED,
    statistic="log2 of the last norm over the first, in the group where it grows least",
)  # fmt: skip
def norms(evidence: Evidence) -> Finding:
    """Compare the last norm with the first."""
    value, draws = evidence.curves(evidence.norms)
    null, p, least = evidence.rotation_p("norms")
    grown = {group: float(curve[-1] / curve[0]) for group, curve in value.items()}
    rising = {group: float((curve.diff() > 0).double().mean()) for group, curve in value.items()}
    text = (
        f"norm at the last layer that counts for the classifier / norm at layer 0: {listed(grown.items(), '.2f')}; "
        f"share of steps at which the norm grows: {listed(rising.items(), '.0%')}"
    )
    return Finding(text, bootstrapped(norm_growth(value), norm_growth(draws), evidence.n), null, p, least)


@rule(
    "s-shape", "the cosine between a token at a layer and the same token at the last layer rises in an S-shape",
    figure="convergence",
    smallest_effect=0.05, null=ROTATED,
    statistic="share of the rise of gamma in the middle third of depth minus the larger share of the other two thirds, "
    "in the group where that is smallest",
)  # fmt: skip
def s_shaped(evidence: Evidence) -> Finding:
    """Compare the rise of gamma in the middle third with those in the others."""
    value, draws = evidence.curves(evidence.gamma)
    effects = {group: float(s_shape({group: curve})) for group, curve in value.items()}
    null, p, least = evidence.rotation_p("s-shape")
    shown = listed(effects.items(), ".2f")
    text = (
        "share of the rise of the cosine in the middle third of the layers, minus the larger of the shares in the "
        f"first and the last third (above 0 for an S-shape): {shown}"
    )
    return Finding(text, bootstrapped(s_shape(value), s_shape(draws), evidence.n), null, p, least)


@rule(
    "order", "the directions of registers converge first, then those of patches, then cls", figure="convergence",
    smallest_effect=0.02, null=ROTATED,
    statistic="smallest difference between the means of gamma over depth of groups that follow each "
    "other",
)  # fmt: skip
def convergence(evidence: Evidence) -> Finding:
    """Compare whole curves of gamma between groups, paired over images."""
    if len(evidence.gamma) < 2:
        return cannot("the model has a single token group")
    value, draws = evidence.curves(evidence.gamma)
    means = {group: curve[:-1].mean() for group, curve in value.items()}
    null, p, least = evidence.rotation_p("order")
    text = f"cosine with the last layer, averaged over all layers before it: {listed(means.items())}"
    return Finding(text, bootstrapped(convergence_order(value), convergence_order(draws), evidence.n), null, p, least)


@rule(
    "basins", "each class has its own basin of attraction", figure="mixing", smallest_effect=0.25,
    null="mixtures at the last layer, where only the normalisation of directions acts",
    statistic="slope at equal shares between the ends of two images, for states mixed in the second half of depth, "
    "minus the slope for states mixed at the last layer",
)  # fmt: skip
def basins(evidence: Evidence) -> Finding:
    """Compare how sharply mixtures of two images fall to one of them with what normalisation alone gives."""
    found = evidence.mixing
    if found is None:
        return cannot("there are no two images of different classes to mix")
    depth = found.layers[-1]
    late = torch.tensor([depth / 2 <= layer < depth for layer in found.layers])
    value, draws = found.slopes.mean(), found.slopes.resample(seed=evidence.seed)
    effect, drawn = (slopes[..., late].mean(dim=-1) - slopes[..., -1] for slopes in (value, draws))
    p, least = above_share(drawn, 0.0)
    by_layer = ", ".join(
        f"{slope:.2f} at layer {layer}" for layer, slope in zip(found.layers, value.tolist(), strict=True)
    )
    text = (
        "slope for mixtures of two images, by the layer at which they are mixed (see the figure on mixtures): "
        f"{by_layer} ({found.slopes.n} pairs)"
    )
    if found.third.n:
        shares = found.third.mean()
        share = float(shares[late].mean())
        text += f"; {share:.0%} of the mixtures with equal weights end nearest to the mean of a third class"
    return Finding(text, bootstrapped(effect, drawn, found.slopes.n), 0.0, p, least)
