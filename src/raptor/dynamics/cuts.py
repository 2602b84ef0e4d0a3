"""Phases of a flow, and the boundaries of each token group, for tests that need boundaries from other tokens."""

from __future__ import annotations

from raptor.core.batches import ImageSource
from raptor.core.flow import DepthFlow
from raptor.core.phases import Phases, PhasesLike, as_phases
from raptor.phases.find import find_phases
from raptor.phases.options import AUTO, PhasesOptions
from raptor.phases.segment import segment


def cuts_of(
    flow: DepthFlow, images: ImageSource, phases: PhasesLike | int | None = AUTO, seed: int = 0
) -> tuple[Phases | None, dict[str, Phases]]:
    """Return the phases, given or found, and by token group as many phases of that group alone.

    Parameters
    ----------
    flow, images
        As in `find_phases`.
    phases
        As in `measure_dynamics`.
    seed
        Seed of the bootstrap over images.
    """
    if phases is None:
        return None, {}
    given = None if isinstance(phases, int) or phases == AUTO else as_phases(phases)
    if given is not None and len(given.lengths) * PhasesOptions().min_length > flow.depth:
        return given, {}  # more phases than could be found
    k = len(given.lengths) if given is not None else phases if isinstance(phases, int) else AUTO
    found = find_phases(flow, images, k=k, seed=seed, progress=False)  # the images show their own
    assert found.measured is not None
    groups = {
        group: segment(found.measured.without_embedding(group).mean().numpy(), found.k).phases
        for group in flow.layout.slices
    }
    return given or found.phases, groups
