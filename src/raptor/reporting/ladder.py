"""The ladder of evidence on the block-recurrent hypothesis, from what the verbs measured of one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raptor.errors import one_line
from raptor.render.registry import EVIDENCE, RUNGS, Rung
from raptor.reporting.collect import Subject

MARKS = {True: "yes", False: "no", None: "inconclusive"}
DESCRIBES = "form"  # the rung that is no answer to the hypothesis


def ladder(subject: Subject) -> list[Rung]:
    """Return the rungs in order; of several surrogates, one with a null, and the one that reproduces most.

    Parameters
    ----------
    subject
        A model of the page, with its runs.
    """
    found: dict[str, Rung] = {}
    for verb, make in EVIDENCE:
        for run in subject.of(verb):
            try:
                rung = None if run.record is None else make(run.record)
            except Exception as error:  # results may come from anybody and hold anything
                subject.missing.append(f"{run.name}: no evidence can be read from its result ({one_line(error)})")
                continue
            if rung is None:
                continue
            best = found.get(rung.rung)
            if best is None or _strength(rung) > _strength(best):
                found[rung.rung] = replace(rung, model=subject.title)
    return [found[name] for name in RUNGS if name in found]


def _strength(rung: Rung) -> tuple[bool, float]:
    """Return what makes one rung better evidence than another: a null, then its value."""
    return rung.null is not None, float("-inf") if rung.value is None else rung.value.value


def mark(rung: Rung) -> str:
    """Return the verdict on a rung in a word or two."""
    return "description only" if rung.rung == DESCRIBES else MARKS[rung.held]


def headline(rungs: Sequence[Rung]) -> str | None:
    """Return the verdict in a few words, such as "Rewritable by 3 blocks. Layers are not interchangeable."."""
    order = ("rewritable", "interchangeable", "same_system")
    said = [rung.short for name in order for rung in rungs if rung.rung == name and rung.short]
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in said) or None


def lines(rungs: Sequence[Rung]) -> list[str]:
    """Return the headline and one line per rung, as plain text."""
    top = headline(rungs)
    return [*([top] if top else []), *(f"{RUNGS[rung.rung]} {mark(rung).capitalize()}. {rung.text}" for rung in rungs)]
