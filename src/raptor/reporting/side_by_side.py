"""Several models in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from raptor.render.tables import Number
from raptor.reporting.collect import SavedRun, Subject
from raptor.reporting.sections import PageTable

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
        rows.append((escape(subject.title), *cells))
    return PageTable("Models", ("model", *OF_PHASES, *OF_SURROGATE), rows)


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
