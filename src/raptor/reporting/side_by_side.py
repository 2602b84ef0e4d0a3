"""Several models in one table, and their figures as small multiples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from raptor.render.registry import FIGURES, TOGETHER
from raptor.render.tables import Number
from raptor.reporting.collect import SavedRun, Subject
from raptor.reporting.sections import PageFigure, PageTable

# Column: keys of result.json that it may stand under, and its format.
OF_PHASES = {
    "layers": ("", ("layers",)),
    "structure": ("", ("verdict",)),
    "k": ("", ("k",)),
    "phases": ("", ("phases",)),
}
OF_SURROGATE = {
    "R2 of its surrogate, last layer": (".3f", ("r2/all/-1", "fidelity/r2/all/-1")),
    "accuracy recovered": (".1%", ("recovered", "fidelity/recovered")),
}


def side_by_side(subjects: Sequence[Subject]) -> PageTable:
    """Return one row per model: its phases, and how close its first surrogate is."""
    rows = []
    for subject in subjects:
        phases, surrogates = subject.of("phases"), subject.of("fidelity") or subject.of("distill")
        cells = [_cell(phases, *column) for column in OF_PHASES.values()]
        cells += [_cell(surrogates, *column) for column in OF_SURROGATE.values()]
        rows.append((escape(subject.short), *cells))
    return PageTable("Models", ("model", *OF_PHASES, *OF_SURROGATE), rows)


def small_multiples(shown: Sequence[dict[str, Any]], data: dict[str, Any]) -> list[PageFigure]:
    """Return figures that several models have, with one panel per model; their panels are added to the data.

    Parameters
    ----------
    shown
        What the template reads of each model.
    data
        What the page's script reads.
    """
    figures = []
    entries = [entry for entry in [*FIGURES.values(), *TOGETHER.values()] if entry.multiples]
    for order, entry in enumerate(entries):
        found = {}  # by model, its first figure of this name
        for identity, figure in data["figures"].items():
            if figure["name"] == entry.name and figure["panels"]:
                found.setdefault(figure["model"], identity)
        if len(found) < 2 or f"beside-{entry.name}" in data["figures"]:
            continue
        titles = {one["id"]: one["title"] for one in shown}
        made = [
            {**data["figures"][own]["panels"][0], "title": titles[model], "model": model} for model, own in found.items()
        ]
        identity = f"beside-{entry.name}"
        csv = "".join(data["figures"][own]["csv"] for own in found.values())
        data["figures"][identity] = {"panels": made, "csv": csv, "name": entry.name, "model": next(iter(found))}
        caption = f"One panel per model, at the same share of depth. {entry.caption.partition('. ')[0]}."
        figures.append(
            PageFigure(identity, identity, entry.title or entry.name, caption, entry.paper, True, (order, 0))
        )
    return figures


def _cell(runs: Sequence[SavedRun], form: str, keys: Sequence[str]) -> Markup:
    """Return what the first run has under the first of several keys; nothing where it has none that can be shown."""
    for run in runs[:1]:
        for key in keys:
            value = lookup(run.result, key)
            if isinstance(value, (int, float)) or (isinstance(value, str) and not form):
                return Number(value, form, key).html(run.name)
    return Markup("")


def lookup(result: Any, key: str) -> Any:
    """Return what stands under a key such as `fidelity/r2/cls/-1`; None where there is nothing."""
    for part in key.split("/"):
        try:
            result = result[int(part)] if isinstance(result, list) else result[part]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return result
