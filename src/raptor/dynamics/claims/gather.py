"""Collect what the claims are judged by from the measures of one model."""

from __future__ import annotations

import torch

from raptor.core.phases import Phases
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
    drawn = [_statistics(*paths) for paths in pooled.rotation.draws(seed=seed)]
    return Evidence(
        norms=by_class[Norms].means,
        gamma=by_class[Convergence].means,
        speed=speed.first.means,
        speed_squares=speed.second.means,
        coherence=coherence.means,
        state_coherence=by_class[StateCoherence].means,
        last=last,
        coherence_floor=coherence.floor,
        ranks=ranks,
        modes=pooled.modes,
        modes_without=pooled.modes_without,
        rotation_measured=_statistics(*pooled.rotation.measured),
        rotation_draws={name: torch.cat([one[name] for one in drawn]) for name in drawn[0]},
        perturbed=perturbed,
        mixing=mixing,
        stationarity=test,
        stationarity_draws=draws,
        seed=seed,
    )


def _statistics(tokens: Paths, means: Paths) -> dict[str, Number]:
    return {**trajectory_statistics(tokens), **spectral_statistics(means)}
