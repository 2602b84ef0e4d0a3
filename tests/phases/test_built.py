"""Flows that were built to have a form of similarity and a recurrence: the ladder says what was built."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.core.toy import Planted, Rotation, ToyFlow, phase_similarity

PHASES = Phases((4, 5, 3))


class Fixed(ToyFlow):
    """Contract every token towards a fixed point of its phase."""

    def __init__(self, phases, width=16, rate=0.5):
        super().__init__(phases.depth, width)
        self.phases, self.rate = phases, rate
        self.points = 3 * torch.randn(phases.k, width, generator=torch.Generator().manual_seed(0)).double()

    def step(self, tokens, layer):
        point = self.points[self.phases.block_of(layer + 1)].to(tokens)
        return point + self.rate * (tokens - point)


def hybrid_similarity(phases, pace=0.03, jump=0.5):
    """Return S of a random walk with a constant pace inside phases and jumps between them."""
    steps = [pace] * (phases.depth + 1)
    for boundary in (0, *phases.boundaries):
        steps[boundary] = jump
    times = np.concatenate([[0.0], np.cumsum(steps[: phases.depth])])
    return torch.from_numpy(np.exp(-np.abs(times[:, None] - times[None, :])))


# By name: the flow, whether layers of its phases are interchangeable, the phases by function, the best description.
BUILT = {
    "rotation": (Rotation([0.15] * 12), True, "12", {"drift", "paced_drift", "hybrid"}),
    "rotation, other speed in each phase": (Rotation([0.1] * 6 + [0.6] * 6), True, "6-6", {"paced_drift", "hybrid"}),
    "contraction to a fixed point per phase": (Fixed(PHASES), True, "4-5-3", None),
    "planted blocks": (Planted(phase_similarity(PHASES)), False, None, {"blocks", "hybrid", "paced_drift"}),
    "planted hybrid": (Planted(hybrid_similarity(PHASES)), False, None, {"hybrid", "paced_drift"}),
}


@pytest.mark.parametrize("name", list(BUILT))
def test_the_ladder_says_what_was_built(name):
    flow, held, phases, best = BUILT[name]
    pixels = torch.rand(24, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    found = raptor.find_phases(flow, [pixels], options=raptor.PhasesOptions(by="function"), progress=False)
    assert found.interchangeable.held is held
    if phases is not None:
        assert str(found.interchangeable.phases) == phases
    if best is not None:
        assert max(found.explained, key=found.explained.get) in best
        assert max(found.explained.values()) > 0.95
    if name == "planted blocks":
        assert found.explained["blocks"] > 0.999
        assert found.explained["drift"] < 0.9
