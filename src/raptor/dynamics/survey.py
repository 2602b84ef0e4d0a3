"""All of section 4 on one flow: most of it in one pass over the images, the dear measures on a few of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raptor.display import Displayed
from raptor.dynamics.basins import BasinMeasure, Basins, ClassMeans
from raptor.dynamics.boundaries import BoundaryTest, boundary_test
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.dmd import DMDError, Modes, PooledDMD
from raptor.dynamics.expansion import Expansion, expansion
from raptor.dynamics.fixed_points import Settling, settle
from raptor.dynamics.geometry import Convergence, Norms, Speed
from raptor.dynamics.halves import Halves, in_halves
from raptor.dynamics.image_dmd import ImageDMD, ImageModes
from raptor.dynamics.image_ranks import ImageRanks
from raptor.dynamics.motion import HELD, Measure, observe
from raptor.dynamics.paths import Paths, PathsMeasure, PrincipalMeasure
from raptor.dynamics.perturbation import Pushed, push
from raptor.dynamics.updates import Coherence, UpdateRanks
from raptor.dynamics.walk import Walk, WalkMeasure
from raptor.flow import DepthFlow, counted, pixels_of, trajectory_size
from raptor.phases import Phases
from raptor.processes import team_of
from raptor.segmentation import segment
from raptor.selection import AUTO, find_phases
from raptor.similarity import ALL

PUSHED = 32  # images that are pushed off their trajectories
STRETCHED = 4  # images whose exponents are measured
GIVEN = "given"  # where cuts come from that somebody chose


@dataclass(frozen=True)
class Dynamics(Displayed):
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
    phases: Phases | str | int | None = AUTO,
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
        Batches of pixels, or whatever `load_images` gives; with labels, basins are measured too. What is fitted on one
        half of them is judged on the other.
    phases
        For what needs them: exponents, and whether tokens are faster where phases meet. `auto` finds them on the first
        half, and a number as many of them; None leaves out what needs them.
    beyond
        Whether to go on after the last layer by the last step, to see if directions come to rest.
    seed
        Of pushes and of the bootstrap over images.
    pushed, stretched
        How many images are pushed off their trajectories, and have their exponents measured: both are dear.
    """
    halves = in_halves(images)
    found: Phases | None
    if phases == AUTO or isinstance(phases, int):
        found, cuts = cuts_of(flow, halves[0], seed, phases)
    else:
        found = Phases.parse(phases) if isinstance(phases, str) else phases
        cuts = {} if found is None else {GIVEN: found}
    few, labelled = _first(halves[0], max(pushed, stretched))
    pooled, walk, single, single_ranks = Pooled(labelled), WalkMeasure(), ImageDMD(), ImageRanks()
    pooled.run(flow, halves, walk, single, single_ranks)
    curves = pooled.curves(seed)
    # As many at a time as their trajectories, with those that they are compared with, fit.
    some = few[:pushed].split(max(1, HELD // (8 * trajectory_size(flow))))
    return Dynamics(
        curves=curves,
        coherence_floor=pooled.coherence.floor,
        settled=pooled.gamma.settled(seed),
        modes=pooled.modes,
        dmd_error=pooled.error,
        walks=walk.result(seed),
        image_modes=single.result(seed),
        image_ranks=single_ranks.result(seed),
        paths=pooled.paths.result(),
        basins=None if pooled.basins is None else pooled.basins.result(seed),
        pushed=push(flow, some, seed=seed),
        phases=found,
        boundaries={
            group: {source: boundary_test(values, cut) for source, cut in cuts.items() if not _circular(group, source)}
            for group, values in pooled.later_speed.result(seed).mean.items()
        },
        expansion=None if found is None else expansion(flow, few[:stretched].split(1), found, seed=seed),
        beyond=settle(flow, some, seed=seed) if beyond else None,
        n=curves["speed"].n,
        seed=seed,
    )


def cuts_of(flow: DepthFlow, images: Any, seed: int = 0, k: int | str = AUTO) -> tuple[Phases, dict[str, Phases]]:
    """Find phases on images; return them, and by their source those of all tokens and of each token group."""
    found = find_phases(flow, images, k=k, seed=seed)
    assert found.measured is not None
    groups = {
        group: segment(found.measured.without_embedding(group).mean().numpy(), found.k).phases
        for group in flow.layout.slices
    }
    return found.phases, {found.group: found.phases, **groups}


def _circular(group: str, source: str) -> bool:
    """Whether a group's speed would be read at cuts that its own similarities made; nearly all tokens are patches."""
    return source == group or (group, source) == ("patch", ALL)


def _first(images: Iterable[Any], n: int) -> tuple[Tensor, bool]:
    """Return the pixels of the first n images, and whether they have labels."""
    found: list[Tensor] = []
    labelled, team = False, team_of(images)
    for batch in images:
        (pixels,) = pixels_of([batch])
        found.append(team.whole(pixels[: counted(batch)]))
        labelled = getattr(batch, "label", None) is not None
        if sum(map(len, found)) >= n:
            break
    return torch.cat(found)[:n], labelled
