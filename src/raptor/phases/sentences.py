"""What a result says in words: the partition, drift or phases, and how far token groups agree."""

from __future__ import annotations

import math
from collections.abc import Mapping

from raptor.core.phases import Phases
from raptor.phases.choose_k import most_phases
from raptor.phases.form.candidates import BLOCKS, KIND_NAMES, CandidateModel, Structure
from raptor.phases.function.interchangeable import Interchangeable
from raptor.phases.function.methods import FitPhases, MethodPhases
from raptor.phases.groups import Agreement
from raptor.phases.resampling import Bootstrap
from raptor.phases.segment import NEAR, Segmentation

# What the score of each objective is, in a sentence.
SCORES = {
    "weighted": "mean similarity within phases",
    "mean": "mean similarity within phases, each phase counted equally",
    "cut": "share of the distance that lies between phases",
}


def partition_sentence(segmentation: Segmentation, bootstrap: Bootstrap | None, images: int) -> str:
    """Return the best partition, its runner-up and how certain its boundaries are."""
    phases, runner, gap = segmentation.phases, segmentation.runner_up, segmentation.gap
    into = f"{phases.k} phase{'' if phases.k == 1 else 's'}"
    meaning = SCORES.get(segmentation.objective)
    score = f"score {segmentation.score:.4f}{'' if meaning is None else f', the {meaning}'}"
    said = f"The best partition into {into} is {phases} ({score})"
    if runner is not None and gap is not None and gap < 0:
        said = (
            f"The solver's partition into {into} is {phases} ({score}). This solver is not "
            f"exact: {runner.phases} scores {-gap:.4f} more"
        )
    elif runner is not None and gap is not None:
        said += f". The second best, {runner.phases}, scores {gap:.4f} less"
    if bootstrap is not None and phases.boundaries:
        least = min(bootstrap.boundary_frequency.get(layer, 0.0) for layer in phases.boundaries)
        said += f". {found_again(least).capitalize()} of {bootstrap.n} bootstrap resamples of {images} images"
    near = len(segmentation.near_optimal)
    more = "At least " if segmentation.near_optimal_truncated else ""
    return said + (f". {more}{near} partitions score within {NEAR} of the best." if near > 1 else ".")


def found_again(least: float) -> str:
    """Return how often resampled images give each boundary again, given the smallest share."""
    share = "all" if least == 1 else f"at least {math.floor(100 * least)}%"
    return f"with this number of phases, each boundary is found again in {share}"


def structure_sentence(structure: Structure, verdict: CandidateModel, k: int, layers: int, min_length: int) -> str:
    """Return whether depth is a drift or phases, and what that is based on."""
    if layers < 4:
        return f"{layers} layers are too few to distinguish phases from a drift."
    if verdict.fit.held_out is not None:
        error = f"its error on held-out images is {verdict.fit.held_out.value:.4f}"
    else:
        same_k = min(k, len(structure.blocks))
        error = (
            f"its residual is {verdict.fit.residual:.3f}, that of {same_k} phases "
            f"{structure.blocks[same_k].residual:.3f}; nothing was held out, because {structure.why_not_held_out}"
        )
    models = (
        "Three models of the similarity matrix were compared: uniform drift (similarity depends only on the number of "
        "layers in between), non-uniform drift (the same, but some layers count for more than others) and constant "
        f"phases (similarity is constant within each of up to {most_phases(layers, min_length)} phases and between any "
        "two of them)."
    )
    if verdict.kind == BLOCKS and verdict.detail != 1:
        return (
            f"{models} The model with {verdict.detail} phases fits best ({error}). Similarity alone does not show that "
            "the layers of a phase compute the same function."
        )
    if verdict.kind == BLOCKS:
        return f"{models} One phase fits best: similarity is the same between all layers ({error})."
    return (
        f"{models} The {KIND_NAMES[verdict.kind]} fits best ({error}): similarity changes smoothly with depth. This "
        "neither shows nor excludes that a few blocks can replace the layers."
    )


def agreement_sentences(agreement: Agreement, phases: Phases) -> list[str]:
    """Return how far the boundaries of token groups agree; nothing where there is one group."""
    if len(agreement.largest_shift) < 2:
        return []
    apart = {name: shift for name, shift in agreement.largest_shift.items() if shift}
    if not apart:
        return [f"Each group of tokens alone (cls, registers, patches) gives the same boundaries as {phases}."]
    shifts = [f"{shift} layer{'s' * (shift != 1)} for {name}" for name, shift in agreement.largest_shift.items()]
    return [f"Boundaries found from one kind of token alone differ from {phases} by at most {', '.join(shifts)}."]


def method_sentences(
    methods: Mapping[str, MethodPhases], interchangeable: Interchangeable | None, fit: FitPhases | None
) -> list[str]:
    """Return what function and fits say; nothing where phases were found by similarity alone."""
    said = []
    if len(methods) > 1:
        found = "; ".join(f"{METHOD_NAMES[name]}, {one.phases}{_gap(one)}" for name, one in methods.items())
        k = next(iter(methods.values())).phases.k
        said.append(f"The best partition into {k} phases depends on what layers are grouped by: {found}.")
    if interchangeable is not None and interchangeable.error is not None:
        said.append(interchangeable_sentence(interchangeable, interchangeable.error.n))
    if fit is not None and fit.surrogate is not None:
        r2, still = (fit.surrogate[name].at("all", -1) for name in ("r2", "r2_identity"))
        said.append(
            f"A surrogate fitted by least squares, without training, has R2 {r2.value:.2f} [{r2.low:.2f}, "
            f"{r2.high:.2f}] at the last layer. If each phase returns its input, R2 is {still.value:.2f}."
        )
    return said


# What each method compares, in words.
METHOD_NAMES = {
    "similarity": "by similarity of their tokens",
    "function": "by function (whether the block of one layer can replace that of another)",
    "fit": "by fit (whether one block, refitted by least squares, can replace all layers of a phase)",
}


def _gap(one: MethodPhases) -> str:
    return "" if one.runner_up is None else f" ({one.runner_up.gap:.4f} above the second best, {one.runner_up.phases})"


def interchangeable_sentence(found: Interchangeable, images: int) -> str:
    """Return whether layers of a phase can stand in for one another, with what that is based on."""
    if found.error is None:
        return "No phase has two layers, so there is nothing to exchange."
    verdict = {
        True: f"The layers of each phase of {found.phases} are interchangeable",
        False: "Layers are not interchangeable",
        None: "Whether layers are interchangeable is inconclusive",
    }[found.held]
    across = "" if found.across is None else f"; across phases it is {found.across.value:.2f}"
    cosine = (
        ""
        if found.within is None
        else f" Within phases, the cosine between the two updates is {found.within.value:.2f}{across}."
    )
    share = found.better_than_nothing["within"]
    return (
        f"{verdict}. On {images} images, every block was applied at the input of every other layer, and its update "
        "(what it adds to the tokens) was compared with that of the layer's own block. This test chooses the number of "
        f"phases itself; its best partition is {found.phases}. Within these phases, the relative error of an update is "
        f"{found.error.value:.2f} [{found.error.low:.2f}, {found.error.high:.2f}]. If the block is left out, the error "
        f"is 1. Of the pairs of layers, {share:.0%} have an error below 1.{cosine}"
    )
