"""Statistics of the paper's claims, as functions of curves by token group. All take any number of leading axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from raptor.dynamics.claims.rotation import Paths

# By token group, one number per layer or step, with any number of axes before it.
Curves = Mapping[str, Float[Tensor, "... _"]]
Number = Float[Tensor, " ..."]

Means = np.ndarray | np.floating  # of one arrangement of steps, or of many

MOST = 10_000  # arrangements of steps
BY_CONVERGENCE = ("register", "patch", "cls")  # earliest first
BY_MEMORY = ("cls", "register", "patch")  # longest first


def smallest(values: Sequence[Number]) -> Number:
    """Return the least of some numbers, element by element; NaN where there are none."""
    return torch.stack(list(values)).amin(dim=0) if values else torch.tensor(torch.nan)


def thirds(curve: Float[Tensor, "*draws steps"]) -> tuple[Number, Number, Number]:
    """Return the means over the first, the middle and the last third of the steps; NaN with fewer than three."""
    third = curve.shape[-1] // 3
    if not third:
        nothing = curve.new_full(curve.shape[:-1], torch.nan)
        return nothing, nothing, nothing
    ends = third, curve.shape[-1] - third
    return curve[..., : ends[0]].mean(-1), curve[..., ends[0] : ends[1]].mean(-1), curve[..., ends[1] :].mean(-1)


def norm_growth(norms: Curves) -> Number:
    """Return log2 of the last norm over the first, of the group in which it grows least."""
    return smallest([(curve[..., -1] / curve[..., 0]).log2() for curve in norms.values()])


def s_shape(gamma: Curves) -> Number:
    """Return how much more of its rise gamma makes in the middle third of depth than in either other third.

    The shares of the rise are compared; the group in which the difference is smallest counts.
    """
    found = []
    for curve in gamma.values():
        last = curve.shape[-1] - 1
        third = last // 3
        marks = curve[..., 0], curve[..., third], curve[..., last - third], curve[..., last]
        first, middle, final = ((marks[i + 1] - marks[i]) / (marks[3] - marks[0]) for i in range(3))
        found.append(middle - torch.maximum(first, final) if third else torch.full_like(middle, torch.nan))
    return smallest(found)


def order(values: Mapping[str, Number], groups: Sequence[str]) -> Number:
    """Return the smallest step between consecutive groups that should decrease; NaN with fewer than two groups."""
    there = [values[group] for group in groups if group in values]
    return smallest([one - other for one, other in itertools.pairwise(there)])


def convergence_order(gamma: Curves) -> Number:
    """Return the smallest difference between mean gammas of registers, patches and cls, in this order."""
    return order({group: curve[..., :-1].mean(dim=-1) for group, curve in gamma.items()}, BY_CONVERGENCE)


def curves_of(paths: Paths) -> tuple[Curves, Curves]:
    """Return the norms and gammas of trajectories, means over images and tokens."""
    norms = {group: states.norm(dim=-1).mean(dim=(1, 3)) for group, states in paths.items()}
    unit = {group: normalize(states, dim=-1) for group, states in paths.items()}
    gamma = {group: (states * states[:, :, -1:]).sum(dim=-1).mean(dim=(1, 3)) for group, states in unit.items()}
    return norms, gamma


def spectral_rank(singular: Float[Tensor, "... _"]) -> Number:
    """Return the entropy rank of singular values: small where they decay fast."""
    shares = singular / singular.sum(dim=-1, keepdim=True)
    return (-torch.special.xlogy(shares, shares).sum(dim=-1)).exp()


@dataclass(frozen=True)
class Permuted:
    """A permutation test of steps: its p-value, the smallest there is, and the 95th percentile under the null."""

    p: float
    smallest: float
    upper: float


def difference(last: Means, first: Means) -> Means:
    """Return the difference of two means."""
    return last - first


def log_ratio(last: Means, first: Means) -> Means:
    """Return the log ratio of two means."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(last / first)


def later_is_larger(
    values: Float[Tensor, " steps"],
    early: int,
    late: int,
    compare: Callable[[Means, Means], Means] = difference,
) -> Permuted | None:
    """Test by permutation of steps whether the last values exceed the first; None where there are too few steps.

    The test is exact up to 10,000 arrangements; beyond, as many random ones are drawn.

    Parameters
    ----------
    values
        One number per step.
    early, late
        Number of first and of last steps that are compared.
    compare
        Effect size of the means over the last and over the first steps.
    """
    from scipy.stats import permutation_test

    n = len(values)
    samples = [one for one in np.split(values.double().numpy(), [early, n - late]) if len(one)]
    if n < early + late or min(early, late, *map(len, samples)) < 2:  # the least that the library takes
        return None
    count = math.comb(n, late) * math.comb(n - late, early)
    found = permutation_test(
        samples, lambda *drawn, axis: compare(drawn[-1].mean(axis=axis), drawn[0].mean(axis=axis)), vectorized=True,
        alternative="greater", n_resamples=count if count <= MOST else MOST - 1, rng=0,
    )  # fmt: skip
    return Permuted(float(found.pvalue), 1 / min(count, MOST), float(np.quantile(found.null_distribution, 0.95)))
