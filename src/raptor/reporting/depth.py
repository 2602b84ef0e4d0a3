"""The depth of a model as the page's ruler shows it: layers, token groups and partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from raptor.core.phases import Phases
from raptor.reporting.collect import Subject


@dataclass(frozen=True)
class Depth:
    """Depth of a model.

    Parameters
    ----------
    title
        Name of the model.
    layers
        Number of layers; 0 where no run has any.
    k, group
        Number of phases and token group that are shown first.
    partitions
        By token group and number of phases, the number of layers of each phase.
    groups
        Token groups that figures have, besides all tokens.
    surrogates
        By number of blocks, the phases of the surrogate that figures show: they may differ from those of the model.
    """

    title: str
    layers: int = 0
    k: int = 1
    group: str = "all"
    partitions: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    surrogates: dict[int, list[int]] = field(default_factory=dict)


ORDER = ("cls", "register", "patch", "outlier")


def depth_of(subject: Subject) -> Depth:
    """Return the depth of a model from whatever its runs have; nothing of a run that cannot be read."""
    records = [run.record for run in subject.runs if run.record is not None]
    layers = max((record.layers for record in records if isinstance(record.layers, int)), default=0)
    partitions: dict[str, dict[int, list[int]]] = {}
    groups: set[str] = set()
    k = None
    for record in records:
        result = record.result
        found = getattr(result, "groups", None)
        if isinstance(found, dict):
            for name, group in found.items():
                by_k = getattr(group, "by_k", {})
                partitions.setdefault(name, {}).update({n: list(best.phases.lengths) for n, best in by_k.items()})
            own = {n: list(best.phases.lengths) for n, best in result.by_k.items()}  # by the method of the run
            for name in {result.group, "all"}:
                partitions.setdefault(name, {}).update(own)
            k = result.k if k is None else k
        groups |= _groups_in(result)
    surrogates = _surrogates(subject)
    measured = [run.record.result for run in subject.of("film") + subject.of("dynamics") if run.record is not None]
    given = [one.phases for one in measured if isinstance(one.phases, Phases)]
    for lengths in [*surrogates.values(), *(list(phases.lengths) for phases in given)]:
        partitions.setdefault("all", {}).setdefault(len(lengths), lengths)
        k = len(lengths) if k is None else k
    shown = [group for group in ORDER if group in groups]
    return Depth(subject.short, layers, k or 1, "all", partitions, shown, dict(sorted(surrogates.items())))


def _surrogates(subject: Subject) -> dict[int, list[int]]:
    """Return the phases of surrogates by number of blocks: first of those that figures of dynamics show."""
    compared = [getattr(run.record.result, "against", None) for run in subject.of("dynamics") if run.record is not None]
    names = {name for against in compared if against is not None for name in against.models}
    records = [run.record for verb in ("fidelity", "distill") for run in subject.of(verb) if run.record is not None]
    found: dict[int, list[int]] = {}
    for record in sorted(records, key=lambda one: one.about.get("surrogate") not in names):
        phases: Any = getattr(record.result, "phases", None)
        if isinstance(phases, Phases):
            found.setdefault(phases.k, list(phases.lengths))
    return found


def _groups_in(result: Any) -> set[str]:
    """Return the token groups that the curves of a result have."""
    named = [getattr(result, name, None) for name in ("curves", "by_layer", "groups")]
    found: set[str] = set()
    for one in named:
        if isinstance(one, dict):
            found |= set(one)
            found |= {group for values in one.values() for group in getattr(values, "mean", ())}
    return found
