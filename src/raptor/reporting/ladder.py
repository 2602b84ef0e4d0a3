"""The ladder of evidence on the block-recurrent hypothesis, from what the verbs measured of one model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from raptor.errors import one_line
from raptor.render.registry import EVIDENCE, RUNGS, Rung
from raptor.render.tables import Number
from raptor.reporting.collect import Subject

MARKS = {True: "yes", False: "no", None: "inconclusive"}
DESCRIBES = "form"  # the rung that is no answer to the hypothesis
# What the value of a rung is, and its null, in a few words.
VALUES = {
    "form": ("share of variance that the best description explains", ""),
    "interchangeable": ("relative error of a block at another layer", "without the block"),
    "rewritable": ("skill", "best control network, trained equally long"),
    "same_system": ("distance of the dynamics", "between token groups"),
}


@dataclass(frozen=True)
class RungLine:
    """A rung as the page shows it, in one line.

    Parameters
    ----------
    question, mark
        What is asked, and the verdict in a word or two.
    value, null
        Both as html, with what they are.
    text
        The result in a sentence.
    """

    question: str
    mark: str
    value: Markup
    null: Markup
    text: str


def rung_line(rung: Rung) -> RungLine:
    """Return a rung for the page."""
    what, against = VALUES[rung.rung]
    if rung.value_key.startswith("nulls/"):
        what += " after a short training"
    value, null = Markup(""), Markup("")
    if rung.value is not None:
        bare = math.isnan(rung.value.low)  # a description has no interval
        ends = ends_of(rung.value_key)
        shown = Number(rung.value.value if bare else rung.value, ".2f", rung.value_key, ends).html(rung.run)
        value = Markup("{} {}").format(what, shown)
    if rung.null is not None and against:
        null = Markup("{} {}").format(against, Number(rung.null, ".2f", rung.null_key).html(rung.run))
    return RungLine(RUNGS[rung.rung], mark(rung), value, null, rung.text)


def ends_of(at: str) -> tuple[str, str]:
    """Return the keys of both ends of the interval of a key such as `skill/all/-1` or `interchangeable/error`."""
    parts = at.split("/")
    if len(parts) > 2 and parts[-2] == "all":  # by token group and layer: name_ci/group/end/layer
        start = "/".join([*parts[:-3], f"{parts[-3]}_ci", parts[-2]])
        return f"{start}/0/{parts[-1]}", f"{start}/1/{parts[-1]}"
    return f"{at}_ci/0", f"{at}_ci/1"


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
                found[rung.rung] = replace(rung, model=subject.title, run=run.name)
    return [found[name] for name in RUNGS if name in found]


def _strength(rung: Rung) -> tuple[bool, float]:
    """Return what makes one rung better evidence than another: a null, then its value."""
    return rung.null is not None, float("-inf") if rung.value is None else rung.value.value


def mark(rung: Rung) -> str:
    """Return the verdict on a rung in a word or two."""
    return "description only" if rung.rung == DESCRIBES else MARKS[rung.held]


def headline(rungs: Sequence[Rung]) -> str | None:
    """Return the verdict on recurrence in one sentence; None where no rung says anything of it.

    Depth is recurrent if a few blocks can replace the layers and the layers of a phase are interchangeable. It is
    recurrent in part if one of the two holds. Otherwise recurrence is not shown: a test that fails does not exclude it.
    """
    found = {rung.rung: rung for rung in rungs if rung.short}
    tested = [found[name] for name in ("rewritable", "interchangeable") if name in found]
    others = [rung.short for name, rung in found.items() if name == "same_system"]
    if not tested:
        return " ".join(map(_sentence, others)) or None
    held = [rung.held for rung in tested]
    answer = "inconclusive"
    if all(held):
        answer = "yes" if len(held) > 1 else "in part"
    elif any(held):
        answer = "in part"
    elif None not in held and len(held) > 1:
        answer = "not shown"
    joined = "; "
    if held[0] and held[-1] is not None:
        joined = ", and " if held[-1] else ", but "
    said = joined.join(rung.short for rung in tested)
    return " ".join([f"Is depth a recurrence? {answer.capitalize()}: {said}.", *map(_sentence, others)])


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def lines(rungs: Sequence[Rung]) -> list[str]:
    """Return the headline and one line per rung, as plain text."""
    top = headline(rungs)
    return [*([top] if top else []), *(f"{RUNGS[rung.rung]} {mark(rung).capitalize()}. {rung.text}" for rung in rungs)]
