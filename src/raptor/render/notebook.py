"""HTML views of results for notebooks."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

from raptor.core.serialize import to_json
from raptor.render.tables import Table


class HtmlRepr:
    """A result with an HTML view; `notebook(result)` in the `text` module of its feature returns its parts."""

    def _repr_html_(self) -> str:
        # Imported by name, because results must not import the modules that show them.
        package = ".".join(type(self).__module__.split(".")[:2])  # of the feature, whatever folder the result is in
        return to_html(importlib.import_module(f"{package}.text").notebook(self))


def to_html(parts: Iterable[Any]) -> Markup:
    """Convert sentences, tables and figures (Altair charts) to HTML."""
    return Markup("").join(_part(part) for part in parts)


def _part(part: Any) -> Markup:
    if isinstance(part, Table):
        return part.html()
    if isinstance(part, str):
        return Markup("<p>{}</p>").format(escape(part))
    import vl_convert

    from raptor.render.charts import spec_of

    return Markup(vl_convert.vegalite_to_svg(to_json(spec_of(part))))
