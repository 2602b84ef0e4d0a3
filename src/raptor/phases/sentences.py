"""What a result says in words: the partition, drift or phases, and how far token groups agree."""

from __future__ import annotations

from raptor.core.phases import Phases
from raptor.phases.candidates import BLOCKS, KIND_NAMES, CandidateModel, Structure
from raptor.phases.choose_k import most_phases
from raptor.phases.groups import Agreement
from raptor.phases.resampling import Bootstrap
from raptor.phases.segment import NEAR, Segmentation


def partition_sentence(segmentation: Segmentation, bootstrap: Bootstrap | None, images: int) -> str:
    """Return the best partition, its runner-up and how certain its boundaries are."""
    phases, runner, gap = segmentation.phases, segmentation.runner_up, segmentation.gap
    into = f"{phases.k} phase{'' if phases.k == 1 else 's'}"
    said = f"The best split into {into} is {phases} (score {segmentation.score:.4f})"
    if runner is not None and gap is not None and gap < 0:
        said = (
            f"The solver's split into {into} is {phases} (score {segmentation.score:.4f}). This solver is not exact: "
            f"{runner.phases} scores {-gap:.4f} more"
        )
    elif runner is not None and gap is not None:
        said += f". The second best, {runner.phases}, scores {gap:.4f} less"
    if bootstrap is not None and phases.boundaries:
        least = min(bootstrap.boundary_frequency.get(layer, 0.0) for layer in phases.boundaries)
        said += (
            f". Each boundary is found again in at least {least:.0%} of {bootstrap.n} bootstrap resamples of {images} "
            "images"
        )
    near = len(segmentation.near_optimal)
    more = "at least " if segmentation.near_optimal_truncated else ""
    return said + (f". In total, {more}{near} splits score within {NEAR} of the best." if near > 1 else ".")


def structure_sentence(structure: Structure, verdict: CandidateModel, k: int, layers: int, min_length: int) -> str:
    """Return whether depth is a drift or phases, and what that is based on."""
    if layers < 4:
        return f"{layers} layers are too few to distinguish phases from a drift."
    if verdict.fit.held_out is not None:
        error = f"error {verdict.fit.held_out.value:.4f} on held-out images"
    else:
        same_k = min(k, len(structure.blocks))
        error = (
            f"residual {verdict.fit.residual:.3f}, and {structure.blocks[same_k].residual:.3f} with {same_k} blocks; "
            f"based on the matrix alone, because {structure.why_not_held_out}"
        )
    if verdict.kind == BLOCKS and verdict.detail != 1:
        return (
            f"Similarity shows {verdict.detail} phases: inside each, all layers are equally similar ({error}), and no "
            "smooth drift fits significantly better. To test whether the layers of a phase compute the same function, "
            "distill a surrogate or replace layers."
        )
    if verdict.kind == BLOCKS:
        return f"Depth is one phase: similarity is the same between all layers ({error})."
    return (
        "Similarity changes smoothly with depth. Three kinds of models were fitted to the similarity matrix: uniform "
        f"drift, non-uniform drift, and {most_phases(layers, min_length)} or fewer phases. A "
        f"{KIND_NAMES[verdict.kind]} fits best ({error}). This neither shows nor excludes that a few blocks can "
        "replace the layers; to test that, distill a surrogate."
    )


def agreement_sentences(agreement: Agreement, phases: Phases) -> list[str]:
    """Return how far the boundaries of token groups agree; nothing where there is one group."""
    if len(agreement.largest_shift) < 2:
        return []
    apart = {name: shift for name, shift in agreement.largest_shift.items() if shift}
    if not apart:
        return [f"All token groups have the boundaries of {phases}."]
    shifts = [f"{shift} layer{'s' * (shift > 1)} for {name} tokens" for name, shift in apart.items()]
    return [f"Boundaries from one token group alone differ from {phases} by at most {', '.join(shifts)}."]
