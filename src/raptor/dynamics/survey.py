"""All of section 4 on one flow, in one pass over the images; the dear measures on a few of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raptor.dynamics.basins import BasinMeasure, Basins, ClassMeans
from raptor.dynamics.boundaries import BoundaryTest, boundary_test
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.dmd import DMDError, Modes, PooledDMD, random_walk
from raptor.dynamics.expansion import Expansion, expansion
from raptor.dynamics.fixed_points import Settling, settle
from raptor.dynamics.geometry import Convergence, Norms, Speed
from raptor.dynamics.halves import Halves, in_halves
from raptor.dynamics.image_dmd import ImageDMD, ImageModes
from raptor.dynamics.image_ranks import ImageRanks
from raptor.dynamics.motion import Measure, Motion, observe
from raptor.dynamics.paths import Paths, PathsMeasure, PrincipalMeasure
from raptor.dynamics.perturbation import Pushed, push
from raptor.dynamics.updates import Coherence, UpdateRanks
from raptor.flow import DepthFlow, pixels_of
from raptor.phases import Phases
from raptor.tokens import TokenLayout

PUSHED = 32  # images that are pushed off their trajectories
STRETCHED = 4  # images whose exponents are measured
GIVEN = "given"  # where cuts come from that somebody chose


@dataclass(frozen=True)
class Walk:
    """What the fit of DMD gives of a walk without memory that is as fast as the flow."""

    spectral_radius: float
    median_modulus: float
    one_step_error: float


@dataclass(frozen=True)
class Dynamics:
    """The depth of a flow as a dynamical system.

    Parameters
    ----------
    curves
        By name, what has a number at every layer or step: norm, gamma, speed, speed_std, stable_rank, entropy_rank,
        participation_ratio, coherence.
    coherence_floor
        By group, what independent updates would have.
    settled
        By group, the first layer with gamma above 0.9, and its interval.
    modes, dmd_error, walks, image_modes
        By group: DMD of one half of the images, its error on the other, of a walk, and of single images.
    image_ranks
        Ranks of the updates of single images.
    paths
        By group, trajectories in principal directions.
    basins
        By group; None without labels.
    pushed
        Self-correction and sensitivity.
    phases, boundaries
        The phases, None where there are none to speak of; by group and by where the cuts come from, whether tokens are
        faster at them, on images that no cut was taken from.
    expansion
        Exponents of each phase.
    beyond
        What the last step leads to when it is repeated; None where that was not asked for.
    n, seed
        Images, and the seed of all that is drawn.
    """

    curves: dict[str, ByLayer]
    coherence_floor: dict[str, float]
    settled: dict[str, tuple[int, tuple[float, float]]]
    modes: dict[str, Modes]
    dmd_error: DMDError
    walks: dict[str, Walk]
    image_modes: dict[str, ImageModes]
    image_ranks: dict[str, ByLayer]
    paths: dict[str, Paths]
    basins: dict[str, Basins] | None
    pushed: Pushed
    phases: Phases | None
    boundaries: dict[str, dict[str, BoundaryTest | None]]
    expansion: Expansion | None
    beyond: Settling | None
    n: int
    seed: int


class Pooled:
    """The measures that stream, over two halves of the images: what needs a fit has it from the first half."""

    def __init__(self, labelled: bool):
        self.labelled = labelled
        self.norms, self.gamma, self.speed = Norms(), Convergence(), Speed()
        self.ranks, self.coherence, self.later_speed = UpdateRanks(), Coherence(), Speed()
        self.dmd, self.principal, self.means = PooledDMD(), PrincipalMeasure(), ClassMeans()
        self.both: list[Measure] = [self.norms, self.gamma, self.speed, self.ranks, self.coherence]

    def run(self, flow: DepthFlow, halves: Halves, *more: Measure) -> None:
        """Observe both halves, one after the other; further measures take both."""
        observe(flow, halves[0], *self.both, *more, self.dmd, self.principal, *([self.means] * self.labelled))
        self.modes = self.dmd.result()
        self.error, self.paths = DMDError(self.modes), PathsMeasure(self.principal.result())
        self.basins = BasinMeasure(self.means) if self.labelled else None
        judged: list[Measure] = [self.error, self.paths, self.later_speed]
        observe(flow, halves[1], *self.both, *more, *judged, *([self.basins] if self.basins else []))

    def curves(self, seed: int) -> dict[str, ByLayer]:
        """Return all that has a number at every layer or step."""
        return {
            "norm": self.norms.result(seed), "gamma": self.gamma.result(seed), "speed": self.speed.result(seed),
            "speed_std": self.speed.spread(seed), **self.ranks.result(seed), "coherence": self.coherence.result(seed),
        }  # fmt: skip


def measure_dynamics(
    flow: DepthFlow,
    images: Any,
    phases: Phases | None = None,
    beyond: bool = False,
    seed: int = 0,
    pushed: int = PUSHED,
    stretched: int = STRETCHED,
) -> Dynamics:
    """Measure the depth of a flow as a dynamical system.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, or whatever `load_images` gives; with labels, basins are measured too.
    phases
        For what needs them: exponents, and whether tokens are faster where phases meet.
    beyond
        Whether to go on after the last layer by the last step, to see if directions come to rest.
    seed
        Of pushes and of the bootstrap over images.
    pushed, stretched
        How many images are pushed off their trajectories, and have their exponents measured: both are dear.
    """
    cuts = {} if phases is None else {GIVEN: phases}
    return survey(flow, in_halves(images), phases, cuts, beyond, seed, pushed, stretched)


def survey(
    flow: DepthFlow,
    halves: Halves,
    phases: Phases | None,
    cuts: dict[str, Phases],
    beyond: bool,
    seed: int,
    pushed: int = PUSHED,
    stretched: int = STRETCHED,
) -> Dynamics:
    """Measure on halves of the images; `cuts` come from elsewhere than the second half, by the name of their source."""
    few, labelled = _first(halves[0], max(pushed, stretched))
    pooled, single, single_ranks = Pooled(labelled), ImageDMD(), ImageRanks()
    pooled.run(flow, halves, single, single_ranks)
    curves = pooled.curves(seed)
    speeds, later = curves["speed"], pooled.later_speed.result(seed)
    return Dynamics(
        curves=curves,
        coherence_floor=pooled.coherence.floor,
        settled=pooled.gamma.settled(seed),
        modes=pooled.modes,
        dmd_error=pooled.error,
        walks={group: _walk(speeds.mean[group], flow.width, seed) for group in pooled.modes},
        image_modes=single.result(seed),
        image_ranks=single_ranks.result(seed),
        paths=pooled.paths.result(),
        basins=None if pooled.basins is None else pooled.basins.result(seed),
        pushed=push(flow, [few[:pushed]], seed=seed),
        phases=phases,
        # A group's own cuts are where its own similarities change: to ask for its speed there would be circular.
        boundaries={
            group: {source: boundary_test(values, cut) for source, cut in cuts.items() if source != group}
            for group, values in later.mean.items()
        },
        expansion=None if phases is None else expansion(flow, [few[:stretched]], phases, seed=seed),
        beyond=settle(flow, [few[:pushed]], seed=seed) if beyond else None,
        n=speeds.n,
        seed=seed,
    )


def _first(images: Iterable[Any], n: int) -> tuple[Tensor, bool]:
    """Return the pixels of the first n images, and whether they have labels."""
    found: list[Tensor] = []
    labelled = False
    for batch in images:
        found += pixels_of([batch])
        labelled = getattr(batch, "label", None) is not None
        if sum(map(len, found)) >= n:
            break
    return torch.cat(found)[:n], labelled


def _walk(speeds: list[float], width: int, seed: int, images: int = 500) -> Walk:
    pooled, layout = PooledDMD(), TokenLayout(0, 0, (1, 1))
    fitted, other = (Motion(random_walk(speeds, width, images, seed + part), layout) for part in (0, 1))
    pooled.add(fitted)
    modes = pooled.result()
    error = DMDError(modes)
    error.add(other)
    patch = modes["patch"]
    return Walk(patch.spectral_radius, patch.median_modulus, error.one["patch"].mean().mean().item())
