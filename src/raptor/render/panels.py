"""Panels of a Vega-Lite specification: the parts of a concatenation, which the page and papers arrange anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Spec = dict[str, Any]

CONCATENATED = ("hconcat", "vconcat", "concat")
CUTS = "cuts"  # name of the layers that draw phase boundaries; the page draws its own, which follow k
SQUARE = ("left", "column", "real")  # fields across a panel that is as high as it is wide
GAP = 24  # pixels between panels
AXIS = 62  # pixels beside a panel for its axis
ASPECT = 0.68  # height of a panel over its width
# Type of at least 8 points, and legends below, so that they take no width.
TYPE = {
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelOverlap": True},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "orient": "bottom", "columns": 3},
    "title": {"fontSize": 11, "subtitleFontSize": 11, "fontWeight": "normal", "anchor": "start", "limit": 150},
}


def panels(spec: Spec) -> list[Spec]:
    """Return the panels of a specification, each with the data and parameters that it inherits."""
    return list(_leaves(spec, {}))


def _leaves(spec: Spec, above: Spec) -> Iterator[Spec]:
    own: Spec = {**above, **{name: spec[name] for name in ("data", "config", "$schema") if name in spec}}
    for name in ("transform", "params"):
        if found := [*above.get(name, ()), *spec.get(name, ())]:
            own[name] = found
    for how in CONCATENATED:
        if how in spec:
            for part in spec[how]:
                yield from _leaves(part, own)
            return
    yield {**spec, **own}


def without_cuts(panel: Spec) -> Spec:
    """Return a panel without its phase boundaries."""
    if "layer" not in panel:
        return panel
    return {**panel, "layer": [part for part in panel["layer"] if not _is_cut(part)]}


def _is_cut(part: Any) -> bool:
    return isinstance(part, dict) and str(part.get("name", "")).startswith(CUTS)


def for_paper(spec: Spec, width: int, narrow: bool) -> Spec:
    """Return a specification whose panels fill a column of a paper, without the title: a paper has captions.

    Parameters
    ----------
    spec
        Specification with one or several panels.
    width
        Width of the column in points.
    narrow
        Whether the panels are placed below one another; otherwise up to three stand side by side.
    """
    parts = panels(spec)
    columns = 1 if narrow else min(len(parts), 3)
    each = (width - GAP * (columns - 1)) // columns - AXIS
    sized = []
    for part in _with_one_legend_each(parts):
        square = is_matrix(part)
        high = min(each if square else int(each * (ASPECT if columns < 3 else 1)), 300)
        sized.append({name: value for name, value in part.items() if name not in ("params", "config", "$schema")})
        # A height by steps has room for every row.
        sized[-1] |= {"width": each, "height": part["height"] if isinstance(part.get("height"), dict) else high}
    whole: Spec = {name: spec[name] for name in ("$schema", "params") if name in spec}
    legend = {**TYPE["legend"], "columns": 1 if narrow else 3, "labelLimit": each}
    whole["config"] = {**spec.get("config", {}), **TYPE, "legend": legend}
    if len(sized) == 1:
        return {**{name: value for name, value in sized[0].items() if name != "title"}, **whole}
    independent = {"scale": {"color": "independent", "shape": "independent"}} if _resolved(spec) else {}
    return {**whole, "concat": sized, "columns": columns, "resolve": spec.get("resolve", independent)}


def _with_one_legend_each(parts: list[Spec]) -> list[Spec]:
    """Return panels in which a scale of colours that several have has the legend of the first alone."""
    seen: set[str] = set()

    def unit_of(unit: Spec) -> Spec:
        encoding = unit.get("encoding", {})
        colour = encoding.get("color", {})
        if colour.get("type") != "quantitative" or "scale" not in colour:
            return unit
        key = json.dumps([colour.get("title"), colour["scale"]], sort_keys=True)
        if key not in seen:
            seen.add(key)
            return unit
        return {**unit, "encoding": {**encoding, "color": {**colour, "legend": None}}}

    return [
        {**part, "layer": [unit_of(unit) for unit in part["layer"]]} if "layer" in part else unit_of(part)
        for part in parts
    ]


def _resolved(spec: Any) -> bool:
    """Whether a specification, or a part of it, sets how scales are shared."""
    if not isinstance(spec, dict):
        return False
    parts = [part for how in CONCATENATED for part in spec.get(how, ())]
    return "resolve" in spec or any(map(_resolved, parts))


def is_matrix(panel: Spec) -> bool:
    """Whether a panel is square: layers in both directions, the grid of patches, or the complex plane."""
    units = [panel, *panel.get("layer", ())]
    found = (unit.get("encoding", {}) for unit in units if isinstance(unit, dict))
    return any(one.get("x", {}).get("field") in SQUARE for one in found if isinstance(one, dict))
