"""The measures that share a pass over the images: fitted on one half of them, evaluated on the other."""

from __future__ import annotations

from functools import cached_property

import torch

from raptor.core.batches import ImageSource
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow
from raptor.dynamics.basins import BasinMeasure, ClassMeans
from raptor.dynamics.claims.evidence import jackknifed
from raptor.dynamics.claims.rotation import RotationNull
from raptor.dynamics.curves.image_ranks import ImageRanks
from raptor.dynamics.curves.registry import RegisteredMeasures
from raptor.dynamics.curves.speed import Speed
from raptor.dynamics.dmd.pooled import DMDError, Modes, PooledDMD
from raptor.dynamics.dmd.random_walk import RandomWalkMeasure
from raptor.dynamics.dmd.single_images import ImageDMD
from raptor.dynamics.measures import Measure, run_measures
from raptor.dynamics.paths import PathsMeasure, PrincipalMeasure
from raptor.dynamics.result import DMDResult

SINGULAR = 32  # singular values in the result

FitEvalSplit = tuple[ImageSource, ImageSource]


class Pooled:
    """The measures that share a pass, over two halves of the images: fitted on the first, evaluated on the second.

    Parameters
    ----------
    labelled
        Whether the images have labels; basins need them.
    """

    def __init__(self, labelled: bool):
        self.labelled, self.registered = labelled, RegisteredMeasures()
        self.dmd, self.principal, self.means = PooledDMD(), PrincipalMeasure(), ClassMeans()
        self.eval_speed, self.rotation, self.image_ranks = Speed(), RotationNull(), ImageRanks()
        self.walk, self.single = RandomWalkMeasure(), ImageDMD()

    def run(self, flow: DepthFlow, split: FitEvalSplit, *first: Measure) -> None:
        """Run both halves, one after the other.

        Parameters
        ----------
        flow, split
            The model, and both halves of the images.
        *first
            Measures that see only the first half.
        """
        both: list[Measure] = [*self.registered, self.walk, self.single, self.image_ranks, self.rotation]
        run_measures(flow, split[0], *first, *both, self.dmd, self.principal, *([self.means] * self.labelled))
        self.modes = self.dmd.compute()
        self.error, self.paths = DMDError(self.modes), PathsMeasure(self.principal.compute())
        self.basins = BasinMeasure(self.means) if self.labelled else None
        evaluated: list[Measure] = [self.error, self.paths, self.eval_speed]
        run_measures(flow, split[1], *both, *evaluated, *([self.basins] if self.basins else []))

    @cached_property
    def modes_without(self) -> list[dict[str, Modes]]:
        """The maps that are fitted without each part of the first half in turn."""
        return self.dmd.without()

    def curves(self, seed: int) -> dict[str, LayerEstimates]:
        """Return every registered measure by name."""
        return self.registered.compute(seed)

    def _jackknifed(self, group: str, name: str) -> Estimate[float]:
        others = [torch.tensor(getattr(modes[group], name)) for modes in self.modes_without]
        found = jackknifed(torch.tensor(getattr(self.modes[group], name)), others, self.dmd.n)
        assert found is not None  # a modulus is a number
        return found

    def dmd_results(self, seed: int) -> dict[str, DMDResult]:
        """Return the linear map of each token group, with its errors, its null and the maps of single images."""
        walks, single = self.walk.compute(seed), self.single.compute(seed)
        return {
            group: DMDResult(
                eigenvalues=modes.eigenvalues.tolist(),
                rank=len(modes.eigenvalues),
                spectral_radius=self._jackknifed(group, "spectral_radius"),
                median_modulus=self._jackknifed(group, "median_modulus"),
                singular=modes.singular[:SINGULAR].tolist(),
                one_step_error=Estimate.from_mean(self.error.one_step[group], seed),
                rollout_error=Estimate.from_mean(self.error.rollout[group], seed),
                amplitudes=modes.amplitudes().abs().tolist(),
                random_walk=walks[group],
                single_images=single[group],
                modes=modes,
                maps=[modes, *(one[group] for one in self.modes_without)],
            )
            for group, modes in self.modes.items()
        }
