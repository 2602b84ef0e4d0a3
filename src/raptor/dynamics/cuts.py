"""Phases of a flow, and the boundaries of each token group, for tests that need boundaries from other tokens."""

from __future__ import annotations

import torch

from raptor.core.flow import DepthFlow
from raptor.core.phases import Phases, PhasesLike, as_phases
from raptor.dynamics.measures import StateBatch
from raptor.phases.choose_k import given_k
from raptor.phases.find import find_phases
from raptor.phases.options import AUTO, PhasesOptions
from raptor.phases.segment import segment
from raptor.phases.similarity import Similarity


class Cuts:
    """The phases, given or found, and by token group as many phases of that group alone. A measure.

    Parameters
    ----------
    flow
        Flow whose states the measure will see.
    phases
        As in `measure_dynamics`.
    """

    def __init__(self, flow: DepthFlow, phases: PhasesLike | int | None = AUTO):
        self.given = None if phases is None or isinstance(phases, int) or phases == AUTO else as_phases(phases)
        self.k: int | str = phases if isinstance(phases, int) else len(self.given.lengths) if self.given else AUTO
        self.groups = tuple(flow.layout.slices)
        too_many = self.given is not None and len(self.given.lengths) * PhasesOptions().min_length > flow.depth
        self.similarity = None if phases is None or too_many else Similarity()
        if self.similarity is not None:
            given_k(PhasesOptions(k=self.k), flow.depth)  # mistakes are reported before any work

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        if self.similarity is not None:
            self.similarity.add(torch.stack(batch.states, dim=2), batch.layout, batch.all_gather)

    def compute(self, seed: int = 0) -> tuple[Phases | None, dict[str, Phases]]:
        """Return both; without phases of groups where there are more phases than could be found.

        Parameters
        ----------
        seed
            Seed of the bootstrap over images.
        """
        if self.similarity is None:
            return self.given, {}
        found = find_phases(self.similarity, k=self.k, seed=seed, progress=False)
        groups = {
            group: segment(self.similarity.without_embedding(group).mean().numpy(), found.k).phases
            for group in self.groups
        }
        return self.given or found.phases, groups
