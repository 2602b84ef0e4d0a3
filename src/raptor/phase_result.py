"""What `raptor phases` reports of one model: its JSON and its sentences."""

from __future__ import annotations

from typing import Any

from raptor.phases import Phases
from raptor.segmentation import Scored, segment
from raptor.selection import FoundPhases
from raptor.structure import Description
from raptor.useful_k import most_phases


def _by_k(partitions: dict[int, Scored]) -> dict[int, Any]:
    base = partitions[1][1]
    return {
        k: {"phases": str(phases), "score": score, "gain": score - base} for k, (phases, score) in partitions.items()
    }


def _error(description: Description) -> dict[str, Any]:
    return {
        "residual": description.residual,
        "held_out": description.held_out,
        "held_out_ci": None if description.held_out_ci is None else list(description.held_out_ci),
        "parameters": description.parameters,
    }


def _structure(found: FoundPhases) -> dict[str, Any]:
    structure = found.structure
    paced = structure.of_kind("paced drift")
    return {
        "drift": _error(structure.of_kind("drift")[0]),
        "paced_drift": {
            **_error(paced[0]),
            "clock": paced[0].detail,
            "clocks": {str(one.detail): _error(one) for one in paced},
        },
        "blocks": {
            one.detail: {**_error(one), "phases": str(one.phases)}
            for one in structure.descriptions
            if one.kind == "blocks"
        },
        "spread": structure.spread,
        "held_out_floor": structure.floor,
        "why_not_held_out": structure.why_not_held_out,
        "verdict_from": "held-out images" if structure.floor is not None else "residuals and parameters (BIC)",
    }


def _groups(found: FoundPhases) -> dict[str, Any]:
    measured = found.measured
    if measured is None:
        return {"matrix": {"similarity": found.similarity.tolist(), "by_k": _by_k(found.by_k)}}
    groups: dict[str, Any] = {}
    for name in measured.groups:
        cka, deep = measured.cka(name), measured.without_embedding(name).mean().numpy()
        groups[name] = {
            "similarity": measured.matrix(name).tolist(),
            "cka": None if cka is None else cka.tolist(),
            "cka_images_dropped": measured.ckas[name].dropped if name in measured.ckas else None,
            "by_k": _by_k(
                found.by_k
                if name == found.group
                else segment(deep, max(found.by_k), found.objective, found.min_length).by_k
            ),
        }
    return groups


def describe_phases(found: FoundPhases) -> dict[str, Any]:
    """Return the JSON of one model."""
    segmentation = found.segmentation
    runner, bootstrap = segmentation.runner_up, found.bootstrap
    groups = _groups(found)
    body = {
        "group": found.group,
        "objective": found.objective,
        "min_length": found.min_length,
        "k": found.k,
        "suggested_k": found.suggested_k,
        "useful_k": found.useful_k,
        "phases": str(found.phases),
        "boundaries": list(found.phases.boundaries),
        "score": segmentation.score,
        "runner_up": None
        if runner is None
        else {"phases": str(runner[0]), "score": runner[1], "gap": segmentation.gap},
        "near_optimal_truncated": segmentation.near_optimal_truncated,
        "near_optimal": [{"phases": str(phases), "score": score} for phases, score in segmentation.near_optimal],
        "by_k": _by_k(found.by_k),
        "bootstrap": None
        if bootstrap is None
        else {
            "n": bootstrap.n,
            "boundary_frequency": bootstrap.boundary_frequency,
            "k_frequency": bootstrap.k_frequency,
        },
        "structure": _structure(found),
        "verdict": found.verdict,
        "agreement": _agreement(groups, found),
        "groups": groups,
    }
    return {**body, "words": sentences(found, body)}


def _agreement(groups: dict[str, Any], found: FoundPhases) -> dict[str, Any]:
    """Return the boundaries by token group, and their largest shift, in layers, from those of the chosen group."""
    cuts = {name: Phases.parse(group["by_k"][found.k]["phases"]).boundaries for name, group in groups.items()}
    own = found.phases.boundaries
    shifts = {name: max((abs(a - b) for a, b in zip(cut, own, strict=True)), default=0) for name, cut in cuts.items()}
    return {"boundaries": {name: list(cut) for name, cut in cuts.items()}, "largest_shift": shifts}


def sentences(found: FoundPhases, body: dict[str, Any]) -> list[str]:
    """Say in words what was found, how sure it is, and what it does not show."""
    said = [_cut_sentence(found), _structure_sentence(found)]
    apart = {name: shift for name, shift in body["agreement"]["largest_shift"].items() if shift}
    if len(body["groups"]) > 1:
        said.append(
            f"With k = {found.k}, boundaries differ between token groups by up to {max(apart.values())} layers "
            f"({', '.join(f'{name} by {shift}' for name, shift in apart.items())})."
            if apart
            else f"With k = {found.k}, all token groups have the same boundaries."
        )
    return said


def _cut_sentence(found: FoundPhases) -> str:
    runner, gap, bootstrap = found.segmentation.runner_up, found.segmentation.gap, found.bootstrap
    said = f"The best cut into {found.k} is {found.phases} (score {found.segmentation.score:.4f})"
    if runner is not None and gap is not None:
        said += f"; the runner-up {runner[0]} is {gap:.4f} behind"
        if gap < 0:
            said = (
                f"The solver's cut into {found.k} is {found.phases} (score {found.segmentation.score:.4f}), but it is "
                f"not exact: {runner[0]} is better by {-gap:.4f}"
            )
    if bootstrap is not None and found.phases.boundaries:
        least = min(bootstrap.boundary_frequency.get(layer, 0.0) for layer in found.phases.boundaries)
        said += f"; its least certain boundary comes out in {least:.0%} of {bootstrap.n} resamples of {found.n} images"
    near = len(found.segmentation.near_optimal)
    more = "at least " if found.segmentation.near_optimal_truncated else ""
    return said + (f"; {more}{near} partitions are within 0.005 of it." if near > 1 else ".")


def _structure_sentence(found: FoundPhases) -> str:
    structure, verdict = found.structure, found.structure.verdict
    if len(found.similarity) < 4:
        return f"{len(found.similarity)} layers are too few to tell phases from a drift."
    if structure.why_not_held_out is None:
        error = f"error {verdict.held_out:.4f} on held-out images"
    else:
        blocks = [one for one in structure.descriptions if one.kind == "blocks"]
        same_k = blocks[min(found.k, len(blocks)) - 1]
        error = (
            f"residual {verdict.residual:.3f} where {same_k.detail} blocks leave {same_k.residual:.3f}; judged by the "
            f"matrix alone, since {structure.why_not_held_out}"
        )
    if verdict.kind == "blocks" and found.suggested_k != 1:
        return (
            f"There are {verdict.detail} phases: inside each, similarity does not decay with distance ({error}), and "
            "no drift describes the matrix better beyond resampling error. That the same function is applied again and "
            "again within a phase is for a surrogate or an intervention to show."
        )
    if verdict.kind == "blocks":
        return f"Depth here is one phase: similarity is the same between all layers ({error})."
    pace = "uneven pace" if verdict.kind == "paced drift" else "even pace"
    tried = most_phases(len(found.similarity), found.min_length)
    return (
        f"Depth here is a smooth drift with {pace} ({error}), not a sequence of phases (up to {tried} were tried): "
        "similarity falls with distance inside whatever is cut. A cut can still be useful, but only function (a "
        "surrogate, an intervention) can show recurrence."
    )
