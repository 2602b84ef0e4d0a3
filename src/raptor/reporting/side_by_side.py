"""Several models in one table, and their figures as small multiples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from raptor.render.registry import FIGURES, TOGETHER
from raptor.reporting.collect import Json
from raptor.reporting.sections import PageFigure, PageTable


def side_by_side(shown: Sequence[dict[str, Any]]) -> PageTable:
    """Return one row per model, with the numbers at its top.

    Parameters
    ----------
    shown
        What the template reads of each model.
    """
    titles = {one.tile.name: one.tile.title for subject in shown for one in subject["tiles"]}
    rows = []
    for subject in shown:
        own = Markup('<span data-model="{}">{}</span>')  # whose result file the numbers come from
        values = {
            one.tile.name: own.format(subject["id"], _cell(one.value, one.tile.ribbon)) for one in subject["tiles"]
        }
        rows.append((escape(subject["title"]), *(values.get(name, Markup("&mdash;")) for name in titles)))
    return PageTable("Models", ("model", *titles.values()), rows)


def _cell(value: Markup, ribbon: Sequence[int]) -> Markup:
    """Return the value of a tile, with the layers as a coloured strip where it has one."""
    layers = [at for at, length in enumerate(ribbon) for _ in range(length)]
    strip = Markup("").join(Markup('<span data-phase="{}"></span>').format(at) for at in layers)
    return (
        value
        if not layers
        else Markup('{}<span class="ribbon" role="img" aria-label="layers by phase">{}</span>').format(value, strip)
    )


def small_multiples(shown: Sequence[dict[str, Any]], data: Json) -> list[PageFigure]:
    """Return figures that several models have, with one panel per model; their panels are added to the data.

    Parameters
    ----------
    shown
        What the template reads of each model.
    data
        What the page's script reads.
    """
    figures = []
    entries = [entry for entry in [*FIGURES.values(), *TOGETHER.values()] if entry.beside]
    for order, entry in enumerate(entries):
        found: dict[str, str] = {}  # by model, its first figure of this name
        for identity, figure in data["figures"].items():
            if figure["name"] == entry.name and figure["panels"]:
                found.setdefault(figure["model"], identity)
        if len(found) < 2 or f"beside-{entry.name}" in data["figures"]:
            continue
        titles = {one["id"]: one["title"] for one in shown}
        made = [
            {**data["figures"][own]["panels"][0], "title": titles[model], "model": model}
            for model, own in found.items()
        ]
        identity = f"beside-{entry.name}"
        csv = "".join(data["figures"][own]["csv"] for own in found.values())
        data["figures"][identity] = {"panels": made, "csv": csv, "name": entry.name, "model": next(iter(found))}
        caption = f"One panel per model; the line is the layer chosen above. {_of_first_panel(entry.caption)}"
        if len({_colours(panel) for panel in made}) > 1:
            caption += " Each panel has a scale of colours of its own."
        figures.append(PageFigure(identity, identity, str(entry.beside), caption, entry.paper, True, (order, 0)))
    return figures


def _of_first_panel(caption: str) -> str:
    """Return what a caption says of the whole figure and of its first panel."""
    whole, _, first = caption.partition(" Second: ")[0].partition("First: ")
    return f"{whole}{first[:1].upper()}{first[1:]}"


def _colours(panel: Any) -> str:
    """Return the scale of colours of the numbers of a panel, as text."""
    scales = [
        encoded.get("scale")
        for unit in [panel, *panel.get("layer", ())]
        if (encoded := unit.get("encoding", {}).get("color", {})).get("type") == "quantitative"
    ]
    return json.dumps(scales, sort_keys=True)
