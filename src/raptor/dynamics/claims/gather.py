"""Collect what the claims are judged by from the measures of one model."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch.nn.functional import normalize

from raptor.core.phases import Phases
from raptor.core.tokens import OUTLIER
from raptor.dynamics.angles import angle
from raptor.dynamics.claims.convergence import trajectory_statistics
from raptor.dynamics.claims.evidence import Evidence
from raptor.dynamics.claims.rotation import Paths
from raptor.dynamics.claims.spectra import spectral_statistics
from raptor.dynamics.claims.statistics import Number
from raptor.dynamics.curves.alike import StateCoherence
from raptor.dynamics.curves.coherence import Coherence
from raptor.dynamics.curves.convergence import Convergence
from raptor.dynamics.curves.norms import Norms
from raptor.dynamics.curves.ranks import UpdateRanks
from raptor.dynamics.curves.speed import Speed
from raptor.dynamics.one_pass import Pooled
from raptor.dynamics.perturbations.mixing import MixingDraws
from raptor.dynamics.perturbations.perturb import PerturbationResult
from raptor.dynamics.stationarity import between_phases, stationarity_test
from raptor.phases.options import PhasesOptions
from raptor.phases.segment import segment

T = TypeVar("T")
MIN_LENGTH = PhasesOptions().min_length
ACROSS = {"cls": "patch", "patch": "cls"}  # whose boundaries the speed of a group is tested at


def gather_evidence(
    pooled: Pooled,
    perturbed: PerturbationResult,
    mixing: MixingDraws | None,
    phases: Phases | None,
    cuts: dict[str, Phases],
    seed: int,
) -> Evidence:
    """Return what the claims about a model are judged by.

    Parameters
    ----------
    pooled
        The measures of the pass over all images, after their curves were computed.
    perturbed, mixing
        Perturbed trajectories, and mixtures of images.
    phases, cuts
        The phases, and by token group those of that group alone.
    seed
        Seed of the bootstrap and of the nulls.
    """
    by_class, last = pooled.registered.by_class, pooled.rotation.last
    speed, coherence, ranks = by_class[Speed], by_class[Coherence], by_class[UpdateRanks]
    evaluated = pooled.eval_speed.first.means
    boundaries = {group: cuts[other] for group, other in ACROSS.items() if group in evaluated and other in cuts}
    guarded = bool(boundaries)
    if not guarded and phases is not None:
        boundaries = {"patch": phases}
    curves = {group: evaluated[group].mean()[: last[group]].numpy() for group in boundaries}
    test = stationarity_test(curves, boundaries, guarded)
    draws = None
    if test is not None:
        draws = torch.stack(
            [
                torch.from_numpy(between_phases(evaluated[group].resample(seed=seed)[:, : last[group]].numpy(), cut))
                for group, cut in boundaries.items()
                if len(cut.lengths) > 1
            ]
        ).mean(dim=0)
    k = 1 if phases is None or not guarded else len(phases.lengths)
    measured = _statistics(*pooled.rotation.measured, k)
    drawn = [_statistics(*paths, k) for paths in pooled.rotation.draws(seed=seed)]
    return Evidence(
        norms=_judged(by_class[Norms].means),
        gamma=_judged(by_class[Convergence].means),
        speed=_judged(speed.first.means),
        speed_squares=_judged(speed.second.means),
        coherence=_judged(coherence.means),
        state_coherence=_judged(by_class[StateCoherence].means),
        last=last,
        coherence_floor=coherence.floor,
        ranks=ranks,
        modes=_judged(pooled.modes),
        modes_without=[_judged(modes) for modes in pooled.modes_without],
        rotation_measured=measured,
        rotation_draws={name: torch.cat([torch.atleast_1d(one[name]) for one in drawn]) for name in drawn[0]},
        perturbed=perturbed,
        mixing=mixing,
        stationarity=test,
        stationarity_draws=draws,
        seed=seed,
    )


def _judged(by_group: dict[str, T]) -> dict[str, T]:
    """Leave out outliers: the paper's claims are about cls, registers and patches."""
    return {group: value for group, value in by_group.items() if group != OUTLIER}


def _statistics(tokens: Paths, means: Paths, k: int) -> dict[str, Number]:
    return {**trajectory_statistics(tokens), **spectral_statistics(means), "phases": explained_by_phases(tokens, k)}


def explained_by_phases(tokens: Paths, k: int) -> Number:
    """Return, for each draw, the variance of speed that phases explain, with boundaries found in the other group.

    Boundaries lie where tokens are fast, and layers that move one group far move others far, too. So trajectories with
    the same speeds and random directions have something explained, by the same procedure.

    Parameters
    ----------
    tokens
        Trajectories of tokens.
    k
        Number of phases; with one, nothing is explained.
    """
    n = len(next(iter(tokens.values())))
    groups = [group for group in ACROSS if group in tokens]
    if k < 2 or len(groups) < 2 or min(tokens[group].shape[2] - 1 for group in groups) < k * MIN_LENGTH:
        return torch.full((n,), torch.nan, dtype=torch.float64)
    cuts, speeds = {}, {}
    for group in groups:
        unit = normalize(tokens[group], dim=-1)
        speeds[group] = angle(unit[:, :, :-1], unit[:, :, 1:]).mean(dim=(1, 3)).numpy()
        layers = unit[:, :, 1:].movedim(2, 1).flatten(2)  # draws, layers, everything else
        similarity = (layers @ layers.mT) / (tokens[group].shape[1] * tokens[group].shape[3])
        cuts[group] = [segment(one.numpy(), k).phases for one in similarity]
    found = [[float(between_phases(speeds[group][i], cuts[ACROSS[group]][i])) for group in groups] for i in range(n)]
    return torch.tensor(found, dtype=torch.float64).mean(dim=1)
