"""What a result says in words: the partition, drift or phases, and how far token groups agree."""

from __future__ import annotations

from collections.abc import Mapping

from raptor.core.phases import Phases
from raptor.phases.choose_k import most_phases
from raptor.phases.form.candidates import BLOCKS, KIND_NAMES, CandidateModel, Structure
from raptor.phases.function.interchangeable import Interchangeable
from raptor.phases.function.methods import FitPhases, MethodPhases
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
        said += f". {found_again(least).capitalize()} of {bootstrap.n} bootstrap resamples of {images} images"
    near = len(segmentation.near_optimal)
    more = "at least " if segmentation.near_optimal_truncated else ""
    return said + (f". In total, {more}{near} splits score within {NEAR} of the best." if near > 1 else ".")


def found_again(least: float) -> str:
    """Return how often resampled images give each boundary again, given the smallest share."""
    return f"each boundary is found again in {'all' if least == 1 else f'at least {least:.0%}'}"


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


def method_sentences(
    methods: Mapping[str, MethodPhases], interchangeable: Interchangeable | None, fit: FitPhases | None
) -> list[str]:
    """Return what function and fits say; nothing where phases were found by similarity alone."""
    said = []
    if len(methods) > 1:
        found = "; ".join(f"by {METHOD_NAMES[name]}: {one.phases}{_gap(one)}" for name, one in methods.items())
        said.append(f"Best splits {found}.")
    if interchangeable is not None and interchangeable.error is not None:
        said.append(interchangeable_sentence(interchangeable, interchangeable.error.n))
    if fit is not None and fit.surrogate is not None:
        r2, still = (fit.surrogate[name].at("all", -1) for name in ("r2", "r2_identity"))
        said.append(
            f"A surrogate fitted by least squares, without training, has R2 {r2.value:.2f} [{r2.low:.2f}, "
            f"{r2.high:.2f}] at the last layer; holding each phase's input constant has {still.value:.2f}."
        )
    return said


# What each method compares, in words.
METHOD_NAMES = {
    "similarity": "similarity of states",
    "function": "what blocks do at other layers",
    "fit": "least-squares fits of blocks",
}


def _gap(one: MethodPhases) -> str:
    return "" if one.runner_up is None else f" ({one.runner_up.gap:.4f} better than {one.runner_up.phases})"


def interchangeable_sentence(found: Interchangeable, images: int) -> str:
    """Return whether layers of a phase can stand in for one another, with what that is based on."""
    if found.error is None:
        return "No phase has two layers, so none can stand in for another."
    verdict = {
        True: f"Layers of the phases {found.phases} are interchangeable",
        False: "Layers are not interchangeable",
        None: "Whether layers are interchangeable is inconclusive",
    }[found.held]
    within = "" if found.within is None else f"{found.within.value:.2f} within phases"
    across = "" if found.across is None else f" and {found.across.value:.2f} across phases"
    share = found.better_than_nothing["within"]
    return (
        f"{verdict}. This is tested on the split {found.phases}, the best one by what blocks do at other layers. If a "
        "block is applied at another layer of its phase, the relative error of what it adds to the tokens is "
        f"{found.error.value:.2f} [{found.error.low:.2f}, {found.error.high:.2f}]; adding nothing has an error of 1, "
        f"and {share:.0%} of the pairs of layers are below that. The cosine between the two updates is "
        f"{within}{across} (n = {images} images)."
    )
